"""Cleans up a partition directory after an interrupted deletion or compaction.

x.deleted   scheduled for deletion: unlinked
x.cleaned   output of an unfinished compaction: unlinked, the originals still exist
x.swap      output of a finished compaction: replaces the segments it covers
x.tmp       replacement of a file that was not finished: unlinked, the old file still exists
an index without its log: unlinked
"""

import logging
from contextlib import suppress

from pykbroker_protocol.records.corrupt import CorruptBatch
from pykbroker_storage.batch_reader import read_batches
from pykbroker_storage.filesystem import FileSystem
from pykbroker_storage.segment import INDEX_SUFFIXES, LOG_SUFFIX
from pykbroker_storage.segment_swap import (
    CLEANED_SUFFIX,
    SWAP_SUFFIX,
    remove_originals,
    rename_to_final,
    stem_of,
)

logger = logging.getLogger(__name__)

UNFINISHED_SUFFIXES = (".deleted", CLEANED_SUFFIX, ".tmp")


def clean_up(filesystem: FileSystem, directory: str) -> list[int]:
    """Removes or renames leftover files and returns the base offsets of the segments, in order."""
    names = set(filesystem.list_directory(directory))
    for name in [name for name in names if name.endswith(UNFINISHED_SUFFIXES)]:
        logger.info("%s/%s: leftover of an interrupted operation; removed", directory, name)
        filesystem.unlink(f"{directory}/{name}")
        names.discard(name)
    if any(name.endswith(SWAP_SUFFIX) for name in names):
        _finish_swaps(filesystem, directory, names)
        names = set(filesystem.list_directory(directory))
    _remove_orphans(filesystem, directory, names)
    return sorted(int(name.removesuffix(LOG_SUFFIX)) for name in names if is_segment(name))


def is_segment(name: str) -> bool:
    return name.endswith(LOG_SUFFIX) and name.removesuffix(LOG_SUFFIX).isdecimal()


def _finish_swaps(filesystem: FileSystem, directory: str, names: set[str]) -> None:
    for name in sorted(names):
        if name.endswith(LOG_SUFFIX + SWAP_SUFFIX):
            _finish_swap(filesystem, directory, name.removesuffix(SWAP_SUFFIX), names)
    for name in names:
        # The remaining .swap files are indexes of a compaction that stopped before its `.log`.
        if name.endswith(SWAP_SUFFIX):
            with suppress(FileNotFoundError):
                filesystem.unlink(f"{directory}/{name}")


def _finish_swap(filesystem: FileSystem, directory: str, target: str, names: set[str]) -> None:
    base_offset = int(target.removesuffix(LOG_SUFFIX))
    swap = f"{directory}/{target}{SWAP_SUFFIX}"
    next_offset = base_offset
    try:
        size_bytes, _ = filesystem.size_and_age(swap)
        for batch in read_batches(filesystem, swap, size_bytes):
            next_offset = batch.next_offset
    except CorruptBatch as problem:
        logger.warning("%s: output of compaction is corrupt (%s); removed", swap, problem)
        filesystem.unlink(swap)
        return

    def delete(path: str) -> None:
        with suppress(FileNotFoundError):
            filesystem.unlink(path)

    covered = sorted(
        offset
        for offset in (int(name.removesuffix(LOG_SUFFIX)) for name in names if is_segment(name))
        if base_offset < offset < next_offset
    )
    stems = [stem_of(directory, offset) for offset in (base_offset, *covered)]
    if target in names:
        remove_originals(stems, delete)
    rename_to_final(filesystem, stems[0])
    logger.info("%s/%s: interrupted compaction was finished", directory, target)


def _remove_orphans(filesystem: FileSystem, directory: str, names: set[str]) -> None:
    for name in names:
        stem, dot, suffix = name.partition(".")
        if f"{dot}{suffix}" in INDEX_SUFFIXES and stem + LOG_SUFFIX not in names:
            logger.warning("%s/%s: index has no log file; removed", directory, name)
            filesystem.unlink(f"{directory}/{name}")
