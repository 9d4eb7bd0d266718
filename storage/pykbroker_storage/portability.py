"""What is one system call on Linux and is missing elsewhere: made of calls that are there."""

import os
import threading

_moving = threading.Lock()
"""A descriptor has one position: nobody moves it while somebody else reads or writes there."""


def pread(descriptor: int, count: int, position: int) -> bytes:
    with _moving:
        os.lseek(descriptor, position, os.SEEK_SET)
        return os.read(descriptor, count)


def pwrite(descriptor: int, data: bytes | bytearray | memoryview, position: int) -> int:
    with _moving:
        os.lseek(descriptor, position, os.SEEK_SET)
        return os.write(descriptor, data)


def space_bytes(path: str) -> tuple[int, int]:
    """The size of the disk, and how much of it is free."""
    import shutil  # noqa: PLC0415  # Linux asks the kernel itself, and starts sooner

    found = shutil.disk_usage(path)
    return found.total, found.free


def take_byte(descriptor: int) -> None:
    """The lock of a whole file where only stretches of it can be locked; an OSError if it is taken.

    Windows alone has it.
    """
    import msvcrt  # noqa: PLC0415  # there is none anywhere else

    lock, mode = getattr(msvcrt, "locking"), getattr(msvcrt, "LK_NBLCK")  # noqa: B009  # unknown to mypy elsewhere
    lock(descriptor, mode, 1)
