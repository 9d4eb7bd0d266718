"""All operating system calls of the log, behind an interface that tests can replace."""

# The only module that uses `os`. Paths are strings, because a broker keeps thousands of them.
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

# O_CLOEXEC does not exist on Windows. Without O_BINARY, Windows translates line ends.
READ_ONLY = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
READ_WRITE = os.O_RDWR | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
READ_WRITE_CREATE = READ_WRITE | os.O_CREAT
FILE_MODE = 0o644
DIRECTORY_MODE = 0o777  # reduced by the umask of the process
PRIVATE_MODE = 0o700
IS_WINDOWS = sys.platform == "win32"
IS_LINUX = sys.platform == "linux"
_POPULATE_READ = 22  # MADV_POPULATE_READ, which Python does not define

# The kernel reads and evicts neighbouring pages together, so one page per stretch is probed.
CACHE_PROBE_BYTES = 128 * 1024

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
_NOT_SUPPORTED = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})
_NO_WAIT = getattr(os, "RWF_NOWAIT", 0)

NO_DESCRIPTOR = frozenset({errno.EMFILE, errno.ENFILE})
"""The process or the system has no free file descriptor; the call can be retried."""

_NO_FULL_FLUSH = frozenset({errno.ENOTSUP, errno.EINVAL, errno.ENOTTY})
_PASSING = _NO_ROOM | NO_DESCRIPTOR | {errno.ENOMEM, errno.EAGAIN, errno.EINTR}


class DiskFull(OSError):
    """No space for the bytes. The log is unchanged; appends succeed again when space is free."""


class NotCached(Exception):
    """The bytes are not in memory; read them in a thread instead of waiting for the disk."""


class FlushFailed(OSError):
    """The disk did not accept pages of a file; the operating system may have dropped them."""


def _full_flush(descriptor: int) -> None:
    """macOS: `fsync` leaves the bytes in the drive's cache; F_FULLFSYNC does not, as in Java."""
    assert fcntl is not None
    try:
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)  # type: ignore[attr-defined]  # macOS alone has it
    except OSError as error:
        if error.errno not in _NO_FULL_FLUSH:
            raise
        os.fsync(descriptor)  # a network drive or another file system


_flush = _full_flush if hasattr(fcntl, "F_FULLFSYNC") else os.fsync


class FileSystem:
    """The local disk. The frequent calls are the plain functions of `os`, without a wrapper.

    If no file descriptor is free, calls that need one run `release_descriptor` and are retried
    if it returns True.
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
        """Opens a file for reading and writing, and creates it if it does not exist."""
        return self._with_descriptor(lambda: os.open(path, READ_WRITE_CREATE, FILE_MODE))

    def open_existing(self, path: str) -> int:
        return self._with_descriptor(lambda: os.open(path, READ_WRITE))

    def map(self, descriptor: int, size_bytes: int) -> mmap.mmap:
        return mmap.mmap(descriptor, size_bytes, access=mmap.ACCESS_READ)

    def populate(self, mapped: mmap.mmap, start: int, end: int) -> None:
        """Reads bytes of a map into memory. Raises OSError for bytes that the disk cannot read.

        Touching unreadable bytes instead ends the process (SIGBUS), also on systems without this
        call. The call blocks and holds the interpreter lock.
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
        """Runs a call that takes a file descriptor; closes cached files if none is free."""
        while True:
            try:
                return call()
            except OSError as error:
                if error.errno in _NO_ROOM:  # a new name or inode needs space
                    raise DiskFull(error.errno, error.strerror) from error
                if error.errno not in NO_DESCRIPTOR or not self.release_descriptor():
                    raise

    reports_cached = hasattr(os, "preadv") and _NO_WAIT != 0

    def pread_cached(self, descriptor: int, count: int, position: int) -> bytearray | None:
        """Reads bytes without waiting for the disk; raises `NotCached` unless all are in memory.

        Returns None if this file system does not support it (tmpfs, for example).
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
        if found < count:  # the rest is on disk, or the file was cut: a blocking read shows which
            raise NotCached
        return room

    def is_cached(self, descriptor: int, start: int, end: int) -> bool | None:
        """Samples whether the bytes are in memory; None if the file system does not support it."""
        byte = (bytearray(1),)
        try:
            for position in (*range(start, end, CACHE_PROBE_BYTES), end - 1):
                if not os.preadv(descriptor, byte, position, _NO_WAIT):
                    return False  # the file was truncated
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno in _NOT_SUPPORTED:
                return None
            raise
        return True

    def size_and_age(self, path: str) -> tuple[int, int]:
        """Returns the size of a file and its modification time (ms since 1970)."""
        status = os.stat(path)
        return status.st_size, status.st_mtime_ns // 1_000_000

    def set_modified(self, path: str, modified_ms: int) -> None:
        """Sets the modification time: a compacted segment keeps the age of its sources."""
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def list_directory(self, path: str) -> list[str]:
        return self._with_descriptor(lambda: os.listdir(path))

    def make_directory(self, path: str, mode: int = DIRECTORY_MODE) -> None:
        os.makedirs(path, mode, exist_ok=True)

    def remove_directory(self, path: str) -> None:
        os.rmdir(path)

    def rename(self, source: str, target: str) -> None:
        """Renames a file atomically and replaces the target if it exists."""
        os.replace(source, target)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def sync_directory(self, path: str) -> None:
        """Makes the names in a directory durable, as `fdatasync` does for bytes."""
        try:
            descriptor = self._with_descriptor(lambda: os.open(path, READ_ONLY))
        except PermissionError:
            if IS_WINDOWS:
                return  # Windows cannot open a directory; its names are durable without a sync
            raise
        try:
            _flush(descriptor)
        finally:
            os.close(descriptor)

    def space_bytes(self, path: str) -> tuple[int, int]:
        """Returns the size of the disk and the bytes available to this user."""
        if not hasattr(os, "statvfs"):
            return portability.space_bytes(path)
        found = os.statvfs(path)
        return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize

    can_sync_all = sys.platform == "linux"
    """False where `sync` returns before the bytes are on disk."""

    def sync_all(self) -> None:
        """Flushes all file systems, including bytes written by other processes."""
        os.sync()


class VolatileDisk(FileSystem):
    """The local disk for data that need not survive a power loss: flushes do nothing."""

    is_durable = False

    fdatasync: Callable[[int], None] = staticmethod(lambda _: None)

    def sync_directory(self, path: str) -> None: ...
    def sync_all(self) -> None: ...


LOCAL_DISK = FileSystem()
VOLATILE_DISK = VolatileDisk()


def is_transient(error: Exception) -> bool:
    """Returns whether a resource is missing temporarily, so that a retry may succeed."""
    return isinstance(error, DiskFull) or (isinstance(error, OSError) and error.errno in _PASSING)


def read_file(filesystem: FileSystem, path: str) -> bytes:
    descriptor = filesystem.open_existing(path)
    try:
        return read_exactly(filesystem, descriptor, os.fstat(descriptor).st_size, 0)
    finally:
        filesystem.close(descriptor)


def read_exactly(filesystem: FileSystem, descriptor: int, count: int, position: int) -> bytes:
    """Reads `count` bytes from `position`; more than one call only after a short read."""
    data = filesystem.pread(descriptor, count, position)
    while len(data) < count:
        more = filesystem.pread(descriptor, count - len(data), position + len(data))
        if not more:
            raise OSError(errno.EIO, f"file ends at byte {position + len(data)}")
        data += more
    return data


def write_fully(
    filesystem: FileSystem,
    descriptor: int,
    data: bytes | bytearray | memoryview,
    position: int,
) -> None:
    """Writes all of `data` at `position`, or raises; `DiskFull` if there is no space."""
    try:
        written = filesystem.pwrite(descriptor, data, position)
        while written < len(data):  # the last write on a full disk is short
            rest = memoryview(data)[written:]
            written += filesystem.pwrite(descriptor, rest, position + written)
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise DiskFull(error.errno, os.strerror(error.errno)) from error
        raise


def write_file(filesystem: FileSystem, path: str, data: bytes) -> None:
    """Writes a file with this content, replacing any old content; does not flush it."""
    descriptor = filesystem.open(path)
    try:
        filesystem.ftruncate(descriptor, 0)
        write_fully(filesystem, descriptor, data, 0)
    finally:
        filesystem.close(descriptor)


def sync_file(filesystem: FileSystem, path: str) -> None:
    """Flushes a file to disk. Opens it again, so that any thread can call this."""
    descriptor = filesystem.open_existing(path)
    try:
        sync_descriptor(filesystem, descriptor, path)
    finally:
        filesystem.close(descriptor)


def sync_descriptor(filesystem: FileSystem, descriptor: int, path: str) -> None:
    """Flushes an open file to disk; raises FlushFailed if the disk rejects the bytes."""
    try:
        filesystem.fdatasync(descriptor)
    except OSError as error:
        raise FlushFailed(error.errno, error.strerror, path) from error


def replace_file(filesystem: FileSystem, path: str, data: bytes) -> None:
    """Replaces a file atomically and durably: after a crash it has the old or the new content."""
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
