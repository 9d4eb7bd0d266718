"""What an archive asks of a file system: all or nothing, and once."""

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
    """A file appears with all its content; False if it was there before, whoever made it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        with draft.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, path)  # unlike a rename, it never replaces
        except FileExistsError:
            return False
    finally:
        draft.unlink(missing_ok=True)
    flush_directory(path.parent)
    return True


def move(source: Path, target: Path) -> bool:
    """Whether it was us who moved it: whoever finishes the same batch may have been quicker."""
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
    """What a file says survives a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


flush_directory = flush


def remove_tree(directory: Path) -> None:
    """Others may be removing it, or still writing to it; what stays is removed another time."""
    shutil.rmtree(directory, ignore_errors=True)


def visible_files(directory: Path, suffix: str) -> Iterator[Path]:
    """As readers of data sets see it: names that begin with `_` or `.` are not for them."""
    for root, directories, files in os.walk(directory):
        directories[:] = sorted(name for name in directories if not name.startswith(HIDDEN))
        for name in sorted(files):
            if name.endswith(suffix) and not name.startswith(HIDDEN):
                yield Path(root, name)
