"""How a compacted segment takes the place of those it was made of, whatever interrupts that.

    x.cleaned   being written: of no use to anybody else
    x.swap      whole and flushed: it counts, the originals do not any longer
    x           in its place

The `.log` is always the last of its files to be renamed, and of the originals the `.log` with
the least offset is the last to go. So whoever finds a `.log.swap` knows: while the original of
the same name is there, its indexes are the old ones; after that they are new.
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


def announce(filesystem: FileSystem, stem: str) -> None:
    """From now on the compacted segment counts: after a crash it takes its place."""
    for suffix in (*INDEX_SUFFIXES, LOG_SUFFIX):
        with suppress(FileNotFoundError):
            filesystem.rename(stem + suffix + CLEANED_SUFFIX, stem + suffix + SWAP_SUFFIX)


def remove_originals(stems: Sequence[str], take_away: Callable[[str], None]) -> None:
    """Of each original every file, the stems in ascending order; the first `.log` goes last.

    The first one's snapshot stays: it speaks of what lies before.
    """
    first, *others = stems
    for stem in reversed(others):
        for suffix in (SNAPSHOT_SUFFIX, *INDEX_SUFFIXES, LOG_SUFFIX):
            take_away(stem + suffix)
    for suffix in (*INDEX_SUFFIXES, LOG_SUFFIX):
        take_away(first + suffix)


def settle(filesystem: FileSystem, stem: str) -> None:
    """The originals are gone: the compacted segment's files get their names."""
    for suffix in (*INDEX_SUFFIXES, LOG_SUFFIX):
        with suppress(FileNotFoundError):
            filesystem.rename(stem + suffix + SWAP_SUFFIX, stem + suffix)


def remove_cleaned(filesystem: FileSystem, stem: str) -> None:
    for suffix in (*INDEX_SUFFIXES, LOG_SUFFIX):
        with suppress(FileNotFoundError):
            filesystem.unlink(stem + suffix + CLEANED_SUFFIX)
