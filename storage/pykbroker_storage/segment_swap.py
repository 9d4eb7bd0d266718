"""Replaces segments by a compacted one with renames that survive a crash at any point.

    x.cleaned   compaction is writing it; a start deletes it
    x.swap      complete and flushed; a start finishes the replacement
    x           in use

The `.log` is the last file of a segment to be renamed. The `.log` with the lowest offset is the
last original to be deleted. If a start finds a `.log.swap`, the index files belong to the
original `.log` while that exists, and to the compacted segment afterwards.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress

from pykbroker_storage.filesystem import FileSystem
from pykbroker_storage.producer_state import SNAPSHOT_SUFFIX
from pykbroker_storage.segment import INDEX_SUFFIXES, LOG_SUFFIX

CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"


def stem_of(directory: str, base_offset: int) -> str:
    return f"{directory}/{base_offset:020d}"


def mark_complete(filesystem: FileSystem, stem: str) -> None:
    """Renames `.cleaned` to `.swap`; from then on a restart finishes the replacement."""
    for suffix in (*INDEX_SUFFIXES, LOG_SUFFIX):
        with suppress(FileNotFoundError):
            filesystem.rename(stem + suffix + CLEANED_SUFFIX, stem + suffix + SWAP_SUFFIX)


def remove_originals(stems: Sequence[str], delete: Callable[[str], None]) -> None:
    """Deletes every file of the originals, given in ascending order; the first `.log` goes last.

    The producer snapshot of the first original stays, because it describes earlier batches.
    """
    first, *others = stems
    for stem in reversed(others):
        for suffix in (SNAPSHOT_SUFFIX, *INDEX_SUFFIXES, LOG_SUFFIX):
            delete(stem + suffix)
    for suffix in (*INDEX_SUFFIXES, LOG_SUFFIX):
        delete(first + suffix)


def rename_to_final(filesystem: FileSystem, stem: str) -> None:
    """Renames `.swap` to the final names after the originals were removed."""
    for suffix in (*INDEX_SUFFIXES, LOG_SUFFIX):
        with suppress(FileNotFoundError):
            filesystem.rename(stem + suffix + SWAP_SUFFIX, stem + suffix)


def remove_cleaned(filesystem: FileSystem, stem: str) -> None:
    for suffix in (*INDEX_SUFFIXES, LOG_SUFFIX):
        with suppress(FileNotFoundError):
            filesystem.unlink(stem + suffix + CLEANED_SUFFIX)
