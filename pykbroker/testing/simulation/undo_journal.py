"""Changes of names that are not durable yet, each with the way back."""

# Paths are plain strings, as in the seam itself.
# ruff: noqa: PTH102, PTH104, PTH108, PTH110, PTH113

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Callable


class Journal:
    """In the order of the changes; those that a power cut takes back are undone from the end."""

    def __init__(self, directory: str) -> None:
        os.mkdir(directory)
        self._directory = directory
        self._changes: list[tuple[Callable[[], object], str | None]] = []
        """How to undo it, and the file that is kept for that."""
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

    # --- what becomes of them

    def commit(self) -> None:
        """They are durable from now on."""
        for _, kept in self._changes:
            if kept is not None and os.path.exists(kept):
                os.unlink(kept)
        self._changes.clear()

    def crash(self, chance: random.Random) -> int:
        """Only the first few have reached the disk; returns how many have not."""
        survive = chance.randint(0, len(self._changes))
        lost = len(self._changes) - survive
        while len(self._changes) > survive:
            undo, _ = self._changes.pop()
            undo()
        self.commit()
        return lost
