"""Restores a log directory from a copy. Files that no broker wrote stay untouched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.testing.data_copy import FILES, make_directory_within
from pykbroker.testing.temporary_directory import remove_directory
from pykbroker_storage.filesystem import LOCAL_DISK
from pykbroker_storage.log_directory import (
    DELETED_SUFFIX,
    STRAY_SUFFIX,
    holds_log,
    partition_named,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path


def replace_content(directory: Path, by: Path) -> None:
    """Moves the content of a copy on the same file system into the directory.

    The old content is deleted last, and restored if a move fails.
    """
    outgoing = make_directory_within(directory)
    try:
        move(entries_of_broker(directory), outgoing)
        move(by.iterdir(), directory)
    except BaseException:
        move(entries_of_broker(directory), by)
        move(outgoing.iterdir(), directory)
        outgoing.rmdir()
        raise
    remove_directory(outgoing)
    by.rmdir()


def entries_of_broker(directory: Path) -> Iterator[Path]:
    for entry in directory.iterdir():
        is_partition = partition_named(entry.name) and holds_log(LOCAL_DISK, str(entry))
        is_left_over = entry.name.endswith((DELETED_SUFFIX, STRAY_SUFFIX)) and entry.is_dir()
        if entry.name in FILES or is_partition or is_left_over:
            yield entry


def move(entries: Iterable[Path], target: Path) -> None:
    for entry in list(entries):
        entry.rename(target / entry.name)
