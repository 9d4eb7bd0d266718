"""The seam to the operating system: every call the log makes of it, so that tests bring another."""

# The one place that talks to `os`; paths are plain strings, thousands of them are kept.
# ruff: noqa: PTH103, PTH105, PTH106, PTH108, PTH116, PTH208

import errno
import mmap
import os
import sys
from collections.abc import Callable
from typing import TypeVar

from pykbroker_storage import portability

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]  # there is none

T = TypeVar("T")

# Not every system hands descriptors on, and one translates line ends unless told not to.
READ_ONLY = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
READ_WRITE = os.O_RDWR | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
READ_WRITE_CREATE = READ_WRITE | os.O_CREAT
FILE_MODE = 0o644
DIRECTORY_MODE = 0o777  # as the process's umask allows
PRIVATE_MODE = 0o700
IS_WINDOWS = sys.platform == "win32"
IS_LINUX = sys.platform == "linux"
_POPULATE_READ = 22  # MADV_POPULATE_READ; Python has no name for it

# Pages next to each other are read and evicted together, so not each of them is asked for.
CACHE_PROBE_BYTES = 128 * 1024

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
_NOT_SUPPORTED = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})
_NO_WAIT = getattr(os, "RWF_NOWAIT", 0)

NO_DESCRIPTOR = frozenset({errno.EMFILE, errno.ENFILE})
"""The process or the system has no file descriptor left; the call can be repeated."""

_NO_FULL_FLUSH = frozenset({errno.ENOTSUP, errno.EINVAL, errno.ENOTTY})
_PASSING = _NO_ROOM | NO_DESCRIPTOR | {errno.ENOMEM, errno.EAGAIN, errno.EINTR}


class DiskFull(OSError):
    """No room for the bytes; the log is as it was and takes more when there is room again."""


class NotCached(Exception):
    """Raised instead of waiting for the disk; read the bytes in a thread."""


class FlushFailed(OSError):
    """The disk did not take pages of a file; the system may have dropped them."""


def _flush_to_platters(descriptor: int) -> None:
    """macOS: `fsync` alone leaves the bytes in the drive's cache. Java's `force` does the same."""
    assert fcntl is not None
    try:
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)  # type: ignore[attr-defined]  # macOS alone has it
    except OSError as error:
        if error.errno not in _NO_FULL_FLUSH:
            raise
        os.fsync(descriptor)  # a network drive or a foreign file system


_flush = _flush_to_platters if hasattr(fcntl, "F_FULLFSYNC") else os.fsync


class FileSystem:
    """The local disk. The hot calls are the bare functions of `os`: nothing stands between.

    Without a free file descriptor, calls that need one ask `release_descriptor` to free one, and
    are repeated if it did.
    """

    release_descriptor: Callable[[], bool] = staticmethod(lambda: False)
    is_durable = True

    pread: Callable[[int, int, int], bytes] = staticmethod(getattr(os, "pread", portability.pread))
    pwrite: Callable[[int, bytes | bytearray | memoryview, int], int] = staticmethod(
        getattr(os, "pwrite", portability.pwrite)
    )
    ftruncate: Callable[[int, int], None] = staticmethod(os.ftruncate)
    fdatasync: Callable[[int], None] = staticmethod(getattr(os, "fdatasync", _flush))
    close: Callable[[int], None] = staticmethod(os.close)

    def open(self, path: str) -> int:
        """A descriptor for reading and writing; the file is made if it is not there."""
        return self._with_descriptor(lambda: os.open(path, READ_WRITE_CREATE, FILE_MODE))

    def open_existing(self, path: str) -> int:
        return self._with_descriptor(lambda: os.open(path, READ_WRITE))

    def map(self, descriptor: int, size_bytes: int) -> mmap.mmap:
        return mmap.mmap(descriptor, size_bytes, access=mmap.ACCESS_READ)

    def populate(self, mapped: mmap.mmap, start: int, end: int) -> None:
        """Reads bytes of a map into memory. Raises OSError for bytes that the disk cannot read.

        Touching such bytes instead ends the process (SIGBUS), as it still does on systems without
        this call. Blocks, and holds the interpreter lock meanwhile.
        """
        if not IS_LINUX:
            return
        start -= start % mmap.PAGESIZE
        try:
            mapped.madvise(_POPULATE_READ, start, end - start)
        except OSError as error:
            if error.errno == errno.EFAULT:
                raise OSError(errno.EIO, os.strerror(errno.EIO)) from None
            if error.errno != errno.EINVAL:  # Linux before 5.14
                raise

    def _with_descriptor(self, call: Callable[[], T]) -> T:
        """The result of a call that takes a file descriptor, if need be one of a cached file."""
        while True:
            try:
                return call()
            except OSError as error:
                if error.errno in _NO_ROOM:  # a name or an inode needs room, too
                    raise DiskFull(error.errno, error.strerror) from error
                if error.errno not in NO_DESCRIPTOR or not self.release_descriptor():
                    raise

    can_tell_cached = hasattr(os, "preadv") and _NO_WAIT != 0

    def pread_cached(self, descriptor: int, count: int, position: int) -> bytearray | None:
        """The bytes, without waiting for the disk; raises `NotCached` unless all are in memory.

        Returns None if this file system cannot tell (tmpfs, for example).
        """
        room = bytearray(count)
        try:
            found = os.preadv(descriptor, (room,), position, _NO_WAIT)
        except BlockingIOError:
            raise NotCached from None
        except OSError as error:
            if error.errno in _NOT_SUPPORTED:
                return None
            raise
        if found < count:  # the rest is on disk, or the file was cut: a blocking read tells
            raise NotCached
        return room

    def is_cached(self, descriptor: int, start: int, end: int) -> bool | None:
        """Whether memory holds the bytes, as far as a sample tells; None if unknown."""
        byte = (bytearray(1),)
        try:
            for position in (*range(start, end, CACHE_PROBE_BYTES), end - 1):
                if not os.preadv(descriptor, byte, position, _NO_WAIT):
                    return False  # the file was cut
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno in _NOT_SUPPORTED:
                return None
            raise
        return True

    def size_and_age(self, path: str) -> tuple[int, int]:
        """How many bytes a file has, and when it was last written (in ms since 1970)."""
        status = os.stat(path)
        return status.st_size, status.st_mtime_ns // 1_000_000

    def set_modified(self, path: str, modified_ms: int) -> None:
        """Makes a file as old as another one, whose content it has taken over."""
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def list_directory(self, path: str) -> list[str]:
        return self._with_descriptor(lambda: os.listdir(path))

    def make_directory(self, path: str, mode: int = DIRECTORY_MODE) -> None:
        os.makedirs(path, mode, exist_ok=True)

    def remove_directory(self, path: str) -> None:
        os.rmdir(path)

    def rename(self, source: str, target: str) -> None:
        """Gives the file its new name at once, in the place of whatever has that name."""
        os.replace(source, target)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def sync_directory(self, path: str) -> None:
        """Makes the names in a directory survive a power cut, as `fdatasync` does the bytes."""
        try:
            descriptor = self._with_descriptor(lambda: os.open(path, READ_ONLY))
        except PermissionError:
            if IS_WINDOWS:
                return  # there a directory cannot be opened, and names are durable by themselves
            raise
        try:
            _flush(descriptor)
        finally:
            os.close(descriptor)

    def space_bytes(self, path: str) -> tuple[int, int]:
        """The size of the disk, and how much of it we may still use."""
        if not hasattr(os, "statvfs"):
            return portability.space_bytes(path)
        found = os.statvfs(path)
        return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize

    can_sync_all = sys.platform == "linux"
    """Elsewhere `sync` returns before the bytes are on disk."""

    def sync_all(self) -> None:
        """Makes everything written so far durable, whoever wrote it."""
        os.sync()


class VolatileDisk(FileSystem):
    """The local disk for data that need not survive: nothing waits for the platters."""

    is_durable = False

    fdatasync: Callable[[int], None] = staticmethod(lambda _: None)

    def sync_directory(self, path: str) -> None: ...
    def sync_all(self) -> None: ...


LOCAL_DISK = FileSystem()
VOLATILE_DISK = VolatileDisk()


def is_transient(error: Exception) -> bool:
    """Whether the machine lacks something for now, so that a later attempt may succeed."""
    return isinstance(error, DiskFull) or (isinstance(error, OSError) and error.errno in _PASSING)


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
        sync_descriptor(filesystem, descriptor, path)
    finally:
        filesystem.close(descriptor)


def sync_descriptor(filesystem: FileSystem, descriptor: int, path: str) -> None:
    """Makes the bytes of an open file durable; raises FlushFailed if the disk refuses them."""
    try:
        filesystem.fdatasync(descriptor)
    except OSError as error:
        raise FlushFailed(error.errno, error.strerror, path) from error


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
