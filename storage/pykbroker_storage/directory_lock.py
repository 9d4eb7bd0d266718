"""Keeps a second broker out of a log directory, be it another process or this one."""

import fcntl
import os
from typing import Self

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
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
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
