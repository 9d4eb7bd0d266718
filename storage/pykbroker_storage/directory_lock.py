"""Prevents two brokers, in one or two processes, from using the same log directory."""

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Self

from pykbroker_storage import portability
from pykbroker_storage.filesystem import FILE_MODE, READ_ONLY, READ_WRITE_CREATE

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]  # there is none

LOCK_FILE = ".lock"

# Kafka's lock on `.lock` belongs to the process, so it does not exclude a second broker in it.
_held: set[str] = set()


class AlreadyLocked(Exception):
    """Another broker holds the lock."""


class DirectoryLock:
    """Locks the file `.lock`, as Kafka does, and the directory, because `.lock` can be removed."""

    __slots__ = ("_descriptor", "_directory", "_directory_descriptor", "_path")

    @classmethod
    def take(cls, directory: str) -> Self:
        directory = os.path.realpath(directory)
        path = f"{directory}/{LOCK_FILE}"
        if path in _held:
            raise AlreadyLocked(path)
        directory_descriptor = _lock_directory(directory)
        try:
            descriptor = _open_and_lock(path)
        except BaseException:
            _unlock_directory(directory_descriptor)
            raise
        _held.add(path)
        return cls(directory, directory_descriptor, path, descriptor)

    def __init__(
        self, directory: str, directory_descriptor: int | None, path: str, descriptor: int
    ) -> None:
        self._directory = directory
        self._directory_descriptor = directory_descriptor
        self._path = path
        self._descriptor = descriptor

    def keep(self, is_ours: Callable[[], bool]) -> bool:
        """Creates `.lock` again if it was removed.

        Returns False if the directory was removed, replaced or locked by another process. Some file
        systems change inode numbers; `is_ours` then identifies the directory by its content.
        """
        directory = self._directory_descriptor
        if directory is None:  # Windows does not remove open files
            return True
        try:
            if not _is_open_as(directory, self._directory) and not (
                os.fstat(directory).st_nlink and is_ours()
            ):
                return False
            if not _is_open_as(self._descriptor, self._path):
                descriptor = _open_and_lock(self._path)
                os.close(self._descriptor)
                self._descriptor = descriptor
                lock_file(descriptor)  # if both are the same file, closing unlocked it
        except AlreadyLocked:
            return False
        except OSError:  # proves nothing about the directory; the next call retries
            return True
        return True

    def release(self) -> None:
        if self._path in _held:
            _held.remove(self._path)
            os.close(self._descriptor)
            _unlock_directory(self._directory_descriptor)


def _open_and_lock(path: str) -> int:
    descriptor = os.open(path, READ_WRITE_CREATE, FILE_MODE)
    try:
        lock_file(descriptor)
    except (BlockingIOError, PermissionError) as refusal:
        os.close(descriptor)
        raise AlreadyLocked(path) from refusal
    return descriptor


def _lock_directory(path: str) -> int | None:
    """Returns a descriptor that holds the lock; None if directories cannot be opened (Windows)."""
    if fcntl is None:
        return None
    descriptor = os.open(path, READ_ONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as refusal:
        os.close(descriptor)
        raise AlreadyLocked(path) from refusal
    except OSError:  # NFS cannot lock directories; the lock on `.lock` remains
        pass
    return descriptor


def _unlock_directory(descriptor: int | None) -> None:
    if descriptor is not None:
        with suppress(OSError):  # explicit, because forked processes share the lock
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def _is_open_as(descriptor: int, path: str) -> bool:
    """Returns whether the path still names the open file or directory."""
    try:
        found = os.stat(path)  # noqa: PTH116  # once a second, for a path that is a string
    except FileNotFoundError:
        return False
    return os.path.samestat(found, os.fstat(descriptor))


def lock_file(descriptor: int) -> None:
    """Raises BlockingIOError or PermissionError if another process holds the lock."""
    if fcntl is None:
        portability.take_byte(descriptor)
    else:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
