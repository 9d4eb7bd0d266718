"""Atomic file operations of archives."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

if TYPE_CHECKING:
    from collections.abc import Iterator

HIDDEN = ("_", ".")


def create_once(path: Path, content: bytes) -> bool:
    """Creates a file atomically with its content; returns False if it exists."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        with draft.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, path)  # unlike a rename, it never overwrites
        except FileExistsError:
            return False
    finally:
        draft.unlink(missing_ok=True)
    flush_directory(path.parent)
    return True


def move(source: Path, target: Path) -> bool:
    """Moves a file; returns False if another process has moved it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists():
        return False
    try:
        source.rename(target)
    except FileNotFoundError:
        if target.exists():
            return False
        raise
    return True


def flush(path: Path) -> None:
    """Flushes a file or directory to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


flush_directory = flush


def remove_tree(directory: Path) -> None:
    """Deletes a directory tree. Ignores errors, because other processes may delete or write it."""
    shutil.rmtree(directory, ignore_errors=True)


def visible_files(directory: Path, suffix: str) -> Iterator[Path]:
    """Yields the files that dataset readers see: names without a leading `_` or `.`."""
    for root, directories, files in os.walk(directory):
        directories[:] = sorted(name for name in directories if not name.startswith(HIDDEN))
        for name in sorted(files):
            if name.endswith(suffix) and not name.startswith(HIDDEN):
                yield Path(root, name)
