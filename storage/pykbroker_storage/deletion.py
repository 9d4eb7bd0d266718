"""Files that are renamed out of the way at once and unlinked some time later.

Unlinking a large file takes long enough to be noticed, so it happens where nobody waits.
Whoever still reads a map of the file keeps its bytes until the last view is gone.
"""

from collections import deque
from contextlib import suppress
from typing import NamedTuple

from pykbroker_storage.filesystem import IS_WINDOWS, FileSystem

DELETED_SUFFIX = ".deleted"


class _Doomed(NamedTuple):
    due_ms: int
    path: str
    is_directory: bool


class PendingDeletions:
    """`sweep` may run on another thread than everything else."""

    __slots__ = ("_doomed", "_filesystem")

    def __init__(self, filesystem: FileSystem) -> None:
        self._filesystem = filesystem
        self._doomed: deque[_Doomed] = deque()

    def __len__(self) -> int:
        return len(self._doomed)

    def schedule_file(self, path: str, due_ms: int) -> None:
        """Takes away the file's name, if there is such a file."""
        with suppress(FileNotFoundError):
            try:
                self._filesystem.rename(path, path + DELETED_SUFFIX)
            except PermissionError:
                if not IS_WINDOWS:
                    raise
                # There a file is not renamed while it is being read: it goes when it no longer is.
                self._doomed.append(_Doomed(due_ms, path, is_directory=False))
            else:
                self._doomed.append(_Doomed(due_ms, path + DELETED_SUFFIX, is_directory=False))

    def schedule_directory(self, path: str, due_ms: int) -> None:
        """A directory of files only, already renamed."""
        self._doomed.append(_Doomed(due_ms, path, is_directory=True))

    def sweep(self, now_ms: int) -> int:
        """Unlinks what is due; returns how many files or directories that were.

        What cannot be unlinked waits for the next time, and is raised when all else is done.
        """
        swept = 0
        refusal: OSError | None = None
        for _ in range(len(self._doomed)):
            doomed = self._doomed.popleft()
            if doomed.due_ms > now_ms:
                self._doomed.append(doomed)
                continue
            try:
                self._remove(doomed)
            except OSError as error:
                self._doomed.append(doomed)
                if not (IS_WINDOWS and isinstance(error, PermissionError)):
                    refusal = error
            else:
                swept += 1
        if refusal is not None:
            raise refusal
        return swept

    def _remove(self, doomed: _Doomed) -> None:
        if doomed.is_directory:
            remove_tree(self._filesystem, doomed.path)
        else:
            with suppress(FileNotFoundError):
                self._filesystem.unlink(doomed.path)


def remove_tree(filesystem: FileSystem, directory: str) -> None:
    """Removes a directory of files; one that is gone already is fine."""
    with suppress(FileNotFoundError):
        for name in filesystem.list_directory(directory):
            with suppress(FileNotFoundError):
                filesystem.unlink(f"{directory}/{name}")
        filesystem.remove_directory(directory)
