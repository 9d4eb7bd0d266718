"""The small files beside the segments: leader epochs, producer snapshots, the topic's id."""

import logging
from collections.abc import Sequence
from contextlib import suppress

from pykbroker_protocol.records.batch import iterate_batches
from pykbroker_storage.checkpoint import MalformedCheckpoint
from pykbroker_storage.filesystem import FileSystem, read_file, sync_file, write_file
from pykbroker_storage.leader_epochs import LEADER_EPOCH_FILE, LeaderEpochs
from pykbroker_storage.producer_state import (
    SNAPSHOT_SUFFIX,
    CorruptSnapshot,
    ProducerStates,
    snapshot_file_name,
)
from pykbroker_storage.segment import Segment

logger = logging.getLogger(__name__)


def load_producers(
    filesystem: FileSystem,
    directory: str,
    segments: Sequence[Segment],
    *,
    aborted_from: int | None = None,
) -> ProducerStates:
    """What each idempotent producer wrote last: the newest good snapshot and the batches since.

    After a clean end the snapshot is of the log's end and no batch is read. Without one all that
    is left is read, even before the log's start, so that a restart forgets nobody. Segments from
    the offset `aborted_from` on have their aborted transactions noted anew.
    """
    log_end_offset = segments[-1].next_offset
    producers = ProducerStates()
    from_offset = segments[0].base_offset
    for offset in reversed(_tidy_snapshots(filesystem, directory, segments, log_end_offset)):
        if aborted_from is not None and offset > aborted_from:
            continue
        path = snapshot_path(directory, offset)
        try:
            producers = ProducerStates.decode(read_file(filesystem, path))
        except CorruptSnapshot as problem:
            logger.warning("%s: not readable (%s), removed", path, problem)
            filesystem.unlink(path)
        else:
            from_offset = offset
            break
    _replay(segments, from_offset, producers, aborted_from)
    return producers


def _replay(
    segments: Sequence[Segment],
    from_offset: int,
    producers: ProducerStates,
    aborted_from: int | None,
) -> None:
    for segment in segments:
        notes_aborted = aborted_from is not None and segment.base_offset >= aborted_from
        if notes_aborted:
            segment.forget_aborted()
        if segment.next_offset > from_offset and segment.size_bytes:
            position = segment.position_of(from_offset)
            for batch in iterate_batches(segment.file.view_all()[position:]):
                ended = producers.update(batch)
                if notes_aborted and ended is not None and ended.is_aborted:
                    segment.note_aborted(ended.as_aborted())
        if notes_aborted:
            segment.save_aborted()


def save_producers(
    filesystem: FileSystem, directory: str, producers: ProducerStates, log_end_offset: int
) -> str:
    path = snapshot_path(directory, log_end_offset)
    write_file(filesystem, path, producers.encode())
    return path


def _tidy_snapshots(
    filesystem: FileSystem, directory: str, segments: Sequence[Segment], log_end_offset: int
) -> list[int]:
    """Keeps the newest snapshot and those at which a segment begins: truncating needs them."""
    offsets = sorted(
        int(name.removesuffix(SNAPSHOT_SUFFIX))
        for name in filesystem.list_directory(directory)
        if name.endswith(SNAPSHOT_SUFFIX) and name.removesuffix(SNAPSHOT_SUFFIX).isdecimal()
    )
    usable = [offset for offset in offsets if offset <= log_end_offset]
    wanted = {segment.base_offset for segment in segments}.union(usable[-1:])
    for offset in offsets:
        if offset not in wanted or offset > log_end_offset:
            with suppress(FileNotFoundError):
                filesystem.unlink(snapshot_path(directory, offset))
    return [offset for offset in usable if offset in wanted]


def snapshot_path(directory: str, offset: int) -> str:
    return f"{directory}/{snapshot_file_name(offset)}"


def load_leader_epochs(filesystem: FileSystem, directory: str) -> LeaderEpochs:
    """A lost or broken file is no loss after a crash: the batches tell their epochs."""
    path = f"{directory}/{LEADER_EPOCH_FILE}"
    try:
        return LeaderEpochs.decode(read_file(filesystem, path))
    except FileNotFoundError:
        return LeaderEpochs()
    except MalformedCheckpoint as problem:
        logger.warning("%s: not readable (%s), begun anew", path, problem)
        return LeaderEpochs()


def save_leader_epochs(
    filesystem: FileSystem, directory: str, epochs: LeaderEpochs, *, durable: bool = False
) -> None:
    path = f"{directory}/{LEADER_EPOCH_FILE}"
    write_file(filesystem, path + ".tmp", epochs.encode())
    if durable:
        sync_file(filesystem, path + ".tmp")
    filesystem.rename(path + ".tmp", path)
