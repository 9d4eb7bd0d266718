"""The seam to the operating system: every call the log makes of it, so that tests bring another."""

# The one place that talks to `os`; paths are plain strings, thousands of them are kept.
# ruff: noqa: PTH103, PTH105, PTH106, PTH108, PTH116, PTH208

import errno
import mmap
import os
from collections.abc import Callable

READ_WRITE_CREATE = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
FILE_MODE = 0o644

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})


class DiskFull(OSError):
    """No room for the bytes; the log is as it was and takes more when there is room again."""


class FileSystem:
    """The local disk. The hot calls are the bare functions of `os`: nothing stands between."""

    pread: Callable[[int, int, int], bytes] = staticmethod(os.pread)
    pwrite: Callable[[int, bytes | bytearray | memoryview, int], int] = staticmethod(os.pwrite)
    ftruncate: Callable[[int, int], None] = staticmethod(os.ftruncate)
    fdatasync: Callable[[int], None] = staticmethod(getattr(os, "fdatasync", os.fsync))
    close: Callable[[int], None] = staticmethod(os.close)

    def open(self, path: str) -> int:
        """A descriptor for reading and writing; the file is made if it is not there."""
        return os.open(path, READ_WRITE_CREATE, FILE_MODE)

    def open_existing(self, path: str) -> int:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def map(self, descriptor: int, size_bytes: int) -> mmap.mmap:
        return mmap.mmap(descriptor, size_bytes, prot=mmap.PROT_READ)

    def size_and_age(self, path: str) -> tuple[int, int]:
        """How many bytes a file has, and when it was last written (in ms since 1970)."""
        status = os.stat(path)
        return status.st_size, status.st_mtime_ns // 1_000_000

    def set_modified(self, path: str, modified_ms: int) -> None:
        """Makes a file as old as another one, whose content it has taken over."""
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def list_directory(self, path: str) -> list[str]:
        return os.listdir(path)

    def make_directory(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def remove_directory(self, path: str) -> None:
        os.rmdir(path)

    def rename(self, source: str, target: str) -> None:
        """Gives the file its new name at once, in the place of whatever has that name."""
        os.replace(source, target)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def sync_directory(self, path: str) -> None:
        """Makes the names in a directory survive a power cut, as `fdatasync` does the bytes."""
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def space_bytes(self, path: str) -> tuple[int, int]:
        """The size of the disk, and how much of it we may still use."""
        found = os.statvfs(path)
        return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize

    def sync_all(self) -> None:
        """Makes everything written so far durable, whoever wrote it."""
        os.sync()


LOCAL_DISK = FileSystem()


def read_file(filesystem: FileSystem, path: str) -> bytes:
    descriptor = filesystem.open_existing(path)
    try:
        return read_exactly(filesystem, descriptor, os.fstat(descriptor).st_size, 0)
    finally:
        filesystem.close(descriptor)


def read_exactly(filesystem: FileSystem, descriptor: int, count: int, position: int) -> bytes:
    """`count` bytes from `position`; one call unless the kernel gives less than was asked."""
    data = filesystem.pread(descriptor, count, position)
    while len(data) < count:
        more = filesystem.pread(descriptor, count - len(data), position + len(data))
        if not more:
            raise OSError(errno.EIO, f"the file ends at {position + len(data)}")
        data += more
    return data


def write_fully(
    filesystem: FileSystem,
    descriptor: int,
    data: bytes | bytearray | memoryview,
    position: int,
) -> None:
    """All of `data` at `position`, or an exception: `DiskFull` when there is no room."""
    try:
        written = filesystem.pwrite(descriptor, data, position)
        while written < len(data):  # the last call of a full disk writes what fits
            rest = memoryview(data)[written:]
            written += filesystem.pwrite(descriptor, rest, position + written)
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise DiskFull(error.errno, os.strerror(error.errno)) from error
        raise


def write_file(filesystem: FileSystem, path: str, data: bytes) -> None:
    """A file with this content, made anew; not yet durable."""
    descriptor = filesystem.open(path)
    try:
        filesystem.ftruncate(descriptor, 0)
        write_fully(filesystem, descriptor, data, 0)
    finally:
        filesystem.close(descriptor)


def sync_file(filesystem: FileSystem, path: str) -> None:
    """Makes the bytes of a file durable. It is opened anew, so that any thread may do this."""
    descriptor = filesystem.open_existing(path)
    try:
        filesystem.fdatasync(descriptor)
    finally:
        filesystem.close(descriptor)


def replace_file(filesystem: FileSystem, path: str, data: bytes) -> None:
    """The old content or the new, whole and durable, whenever the power goes."""
    temporary = path + ".tmp"
    descriptor = filesystem.open(temporary)
    try:
        filesystem.ftruncate(descriptor, 0)
        write_fully(filesystem, descriptor, data, 0)
        filesystem.fdatasync(descriptor)
    finally:
        filesystem.close(descriptor)
    filesystem.rename(temporary, path)
    filesystem.sync_directory(directory_of(path))


def directory_of(path: str) -> str:
    return path.rpartition("/")[0]
