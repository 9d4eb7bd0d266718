"""Deletes files in two steps: renames them immediately and unlinks them later.

Unlinking a large file blocks for a noticeable time, so it runs in the background. The memory
maps of open readers keep the bytes until the last view is gone.
"""

from collections import deque
from contextlib import suppress
from typing import NamedTuple

from pykbroker_storage.filesystem import IS_WINDOWS, FileSystem

DELETED_SUFFIX = ".deleted"


class _Deletion(NamedTuple):
    due_ms: int
    path: str
    is_directory: bool


class PendingDeletions:
    """Files and directories to unlink. `sweep` may run on another thread than the other methods."""

    __slots__ = ("_deletions", "_filesystem")

    def __init__(self, filesystem: FileSystem) -> None:
        self._filesystem = filesystem
        self._deletions: deque[_Deletion] = deque()

    def __len__(self) -> int:
        return len(self._deletions)

    def schedule_file(self, path: str, due_ms: int) -> None:
        """Renames a file, if it exists, and schedules its deletion."""
        with suppress(FileNotFoundError):
            try:
                self._filesystem.rename(path, path + DELETED_SUFFIX)
            except PermissionError:
                if not IS_WINDOWS:
                    raise
                # Windows cannot rename a file with open readers: the file is unlinked later.
                self._deletions.append(_Deletion(due_ms, path, is_directory=False))
            else:
                self._deletions.append(_Deletion(due_ms, path + DELETED_SUFFIX, is_directory=False))

    def schedule_directory(self, path: str, due_ms: int) -> None:
        """Schedules the deletion of a renamed directory that contains only files."""
        self._deletions.append(_Deletion(due_ms, path, is_directory=True))

    def sweep(self, now_ms: int) -> int:
        """Unlinks entries that are due; returns the number of files and directories.

        Keeps entries that cannot be unlinked for the next call; raises the last error at the end.
        """
        swept = 0
        refusal: OSError | None = None
        for _ in range(len(self._deletions)):
            deletion = self._deletions.popleft()
            if deletion.due_ms > now_ms:
                self._deletions.append(deletion)
                continue
            try:
                self._remove(deletion)
            except OSError as error:
                self._deletions.append(deletion)
                if not (IS_WINDOWS and isinstance(error, PermissionError)):
                    refusal = error
            else:
                swept += 1
        if refusal is not None:
            raise refusal
        return swept

    def _remove(self, deletion: _Deletion) -> None:
        if deletion.is_directory:
            remove_tree(self._filesystem, deletion.path)
        else:
            with suppress(FileNotFoundError):
                self._filesystem.unlink(deletion.path)


def remove_tree(filesystem: FileSystem, directory: str) -> None:
    """Removes a directory of files; a missing one is not an error."""
    with suppress(FileNotFoundError):
        for name in filesystem.list_directory(directory):
            with suppress(FileNotFoundError):
                filesystem.unlink(f"{directory}/{name}")
        filesystem.remove_directory(directory)
