"""Directory changes that are not durable yet, each with its undo operation."""

# Paths are plain strings, as in `FileSystem`.
# ruff: noqa: PTH102, PTH104, PTH108, PTH110, PTH113

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Callable


class Journal:
    """An undo log of directory changes, in order. A power loss undoes the latest ones."""

    def __init__(self, directory: str) -> None:
        os.mkdir(directory)
        self._directory = directory
        self._changes: list[tuple[Callable[[], object], str | None]] = []
        """The undo operation, and the deleted file that it needs."""
        self._kept_count = 0

    # --- changes

    def made(self, path: str) -> None:
        self._changes.append((partial(os.unlink, path), None))

    def made_directory(self, path: str) -> None:
        self._changes.append((partial(os.rmdir, path), None))

    def removed_directory(self, path: str) -> None:
        self._changes.append((partial(os.mkdir, path), None))

    def unlink(self, path: str) -> None:
        kept = self._new_name()
        os.rename(path, kept)
        self._changes.append((partial(os.rename, kept, path), kept))

    def rename(self, source: str, target: str) -> None:
        if os.path.exists(source) and os.path.isfile(target):
            self.unlink(target)
        os.rename(source, target)
        self._changes.append((partial(os.rename, target, source), None))

    def _new_name(self) -> str:
        self._kept_count += 1
        return f"{self._directory}/{self._kept_count}"

    # --- flush and power loss

    def commit(self) -> None:
        """Makes all changes durable."""
        for _, kept in self._changes:
            if kept is not None and os.path.exists(kept):
                os.unlink(kept)
        self._changes.clear()

    def crash(self, chance: random.Random) -> int:
        """Undoes a random number of the latest changes and returns that number."""
        survive = chance.randint(0, len(self._changes))
        lost = len(self._changes) - survive
        while len(self._changes) > survive:
            undo, _ = self._changes.pop()
            undo()
        self.commit()
        return lost
