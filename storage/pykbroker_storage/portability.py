"""Replacements for Linux system calls on other systems."""

import os
import threading

_moving = threading.Lock()
"""A descriptor has one position, so seek and read or write must not interleave."""


def pread(descriptor: int, count: int, position: int) -> bytes:
    with _moving:
        os.lseek(descriptor, position, os.SEEK_SET)
        return os.read(descriptor, count)


def pwrite(descriptor: int, data: bytes | bytearray | memoryview, position: int) -> int:
    with _moving:
        os.lseek(descriptor, position, os.SEEK_SET)
        return os.write(descriptor, data)


def space_bytes(path: str) -> tuple[int, int]:
    """Returns the size of the disk and its free bytes."""
    import shutil  # noqa: PLC0415  # Linux asks the kernel itself, and starts sooner

    found = shutil.disk_usage(path)
    return found.total, found.free


def take_byte(descriptor: int) -> None:
    """Locks the first byte of a file on Windows, which has no locks of whole files.

    Raises OSError if the byte is locked already.
    """
    import msvcrt  # noqa: PLC0415  # there is none anywhere else

    lock, mode = getattr(msvcrt, "locking"), getattr(msvcrt, "LK_NBLCK")  # noqa: B009  # unknown to mypy elsewhere
    lock(descriptor, mode, 1)
