"""Keeps a second broker out of a log directory, be it another process or this one."""

import os
from typing import Self

from pykbroker_storage import elsewhere
from pykbroker_storage.filesystem import FILE_MODE, READ_WRITE_CREATE

try:
    import fcntl
except ImportError:  # Windows has other locks
    fcntl = None  # type: ignore[assignment]  # there is none

LOCK_FILE = ".lock"

# The lock Kafka takes too; it is the process's, so it does not keep the process itself out.
_held: set[str] = set()


class AlreadyLocked(Exception):
    """Somebody else works in the directory."""


class DirectoryLock:
    __slots__ = ("_descriptor", "_path")

    @classmethod
    def take(cls, directory: str) -> Self:
        path = f"{os.path.realpath(directory)}/{LOCK_FILE}"
        if path in _held:
            raise AlreadyLocked(path)
        descriptor = os.open(path, READ_WRITE_CREATE, FILE_MODE)
        try:
            lock_file(descriptor)
        except (BlockingIOError, PermissionError) as refusal:
            os.close(descriptor)
            raise AlreadyLocked(path) from refusal
        _held.add(path)
        return cls(path, descriptor)

    def __init__(self, path: str, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor

    def release(self) -> None:
        if self._path in _held:
            _held.remove(self._path)
            os.close(self._descriptor)


def lock_file(descriptor: int) -> None:
    """Raises BlockingIOError or PermissionError if somebody has it."""
    if fcntl is None:
        elsewhere.take_byte(descriptor)
    else:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
