"""Small files of a partition directory: leader epochs, producer snapshots, partition metadata."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice

from pykbroker_protocol.records.batch import iterate_batches
from pykbroker_storage.checkpoint import PARTITION_METADATA_FILE, MalformedCheckpoint
from pykbroker_storage.filesystem import FileSystem, read_file, sync_file, write_file, write_fully
from pykbroker_storage.leader_epochs import LEADER_EPOCH_FILE, LeaderEpochs
from pykbroker_storage.producer_state import (
    SNAPSHOT_SUFFIX,
    CorruptSnapshot,
    ProducerStates,
    encode_producers,
    snapshot_file_name,
    snapshot_pieces,
)
from pykbroker_storage.producer_truncation import states_after_truncation
from pykbroker_storage.segment import Segment
from pykbroker_storage.transaction_index_checksums import CHECKSUMS_FILE

logger = logging.getLogger(__name__)

PRODUCERS_PER_SLICE = 1_000
"""Encoding this many takes about half a millisecond."""


def load_producers(
    filesystem: FileSystem,
    directory: str,
    segments: Sequence[Segment],
    *,
    aborted_from: int | None = None,
) -> ProducerStates:
    """Loads the producer states from the newest valid snapshot and the batches after it.

    After a clean shutdown the snapshot is at the log end and no batch is read. Without a snapshot
    all stored batches are read, even below the log start offset, so that no producer is lost.
    Transaction indexes of segments from `aborted_from` on are rebuilt.
    """
    producers, from_offset = _newest_snapshot(filesystem, directory, segments, aborted_from)
    _replay(segments, from_offset, producers, aborted_from)
    return producers


def truncate_producers(
    filesystem: FileSystem,
    directory: str,
    segments: Sequence[Segment],
    current: ProducerStates,
    removed: set[int],
) -> ProducerStates:
    """Returns the states after a truncation that removed batches of these producers.

    Raises MalformedTransactionIndex.
    """
    snapshot, offset = _newest_snapshot(filesystem, directory, segments, None)
    segments[-1].truncate_transaction_index()
    if not removed:
        return current
    return states_after_truncation(current, snapshot, segments, offset, removed)


def _newest_snapshot(
    filesystem: FileSystem, directory: str, segments: Sequence[Segment], upto: int | None
) -> tuple[ProducerStates, int]:
    """Returns the states in the newest valid snapshot and its offset; removes unusable files."""
    log_end_offset = segments[-1].next_offset
    for offset in reversed(_clean_up_snapshots(filesystem, directory, segments, log_end_offset)):
        if upto is not None and offset > upto:
            continue
        path = snapshot_path(directory, offset)
        try:
            return ProducerStates.decode(read_file(filesystem, path)), offset
        except CorruptSnapshot as problem:
            logger.warning("%s: snapshot is corrupt (%s); removed", path, problem)
            filesystem.unlink(path)
    return ProducerStates(), segments[0].base_offset


def _replay(
    segments: Sequence[Segment],
    from_offset: int,
    producers: ProducerStates,
    aborted_from: int | None,
) -> None:
    for segment in segments:
        notes_aborted = aborted_from is not None and segment.base_offset >= aborted_from
        if notes_aborted:
            segment.clear_transaction_index()
        if segment.next_offset > from_offset and segment.size_bytes:
            position = segment.position_of(from_offset)
            data = segment.file.view_all()[position:]
            segment.file.make_readable(position, segment.size_bytes)
            for batch in iterate_batches(data):
                ended = producers.update(batch)
                if notes_aborted and ended is not None and ended.is_aborted:
                    segment.add_aborted(ended.as_aborted())
        if notes_aborted:
            segment.save_transaction_index()


def save_producers(
    filesystem: FileSystem, directory: str, producers: ProducerStates, log_end_offset: int
) -> str:
    path = snapshot_path(directory, log_end_offset)
    write_file(filesystem, path, producers.encode())
    return path


class DeferredSnapshot:
    """A producer snapshot that is encoded in slices, between appends.

    A crash before it is written costs only time: the next start reads the batches since the
    previous snapshot.
    """

    __slots__ = ("_directory", "_entries", "_filesystem", "_frozen", "_producers", "offset")

    def __init__(
        self, filesystem: FileSystem, directory: str, producers: ProducerStates, offset: int
    ) -> None:
        self.offset = offset
        self._filesystem = filesystem
        self._directory = directory
        self._producers = producers
        self._frozen = producers.freeze()
        self._entries: list[bytes] = []

    def encode(self) -> Iterator[None]:
        """Encodes one slice per step; the producers may change between steps."""
        producers = iter(self._frozen.items())
        while entries := encode_producers(islice(producers, PRODUCERS_PER_SLICE)):
            self._entries.append(entries)
            yield

    def write(self) -> None:
        """Writes the encoded entries to a temporary file; may run on another thread.

        Writes piece by piece: joining them would hold the interpreter lock for too long.
        """
        descriptor = self._filesystem.open(self._unfinished)
        try:
            self._filesystem.ftruncate(descriptor, 0)
            position = 0
            for piece in snapshot_pieces(self._entries):
                write_fully(self._filesystem, descriptor, piece, position)
                position += len(piece)
        finally:
            self._filesystem.close(descriptor)

    def finish(self, *, keep: bool) -> None:
        """Renames the temporary file to its final name, or removes it."""
        self._producers.thaw(self._frozen)
        if keep:
            self._filesystem.rename(self._unfinished, snapshot_path(self._directory, self.offset))
            return
        with suppress(FileNotFoundError):
            self._filesystem.unlink(self._unfinished)

    @property
    def _unfinished(self) -> str:
        return f"{snapshot_path(self._directory, self.offset)}.tmp"


def _clean_up_snapshots(
    filesystem: FileSystem, directory: str, segments: Sequence[Segment], log_end_offset: int
) -> list[int]:
    """Keeps the newest snapshot and those at segment starts, which truncation needs."""
    offsets = sorted(
        int(name.removesuffix(SNAPSHOT_SUFFIX))
        for name in filesystem.list_directory(directory)
        if name.endswith(SNAPSHOT_SUFFIX) and name.removesuffix(SNAPSHOT_SUFFIX).isdecimal()
    )
    usable = [offset for offset in offsets if offset <= log_end_offset]
    kept = {segment.base_offset for segment in segments}.union(usable[-1:])
    for offset in offsets:
        if offset not in kept or offset > log_end_offset:
            with suppress(FileNotFoundError):
                filesystem.unlink(snapshot_path(directory, offset))
    return [offset for offset in usable if offset in kept]


def snapshot_path(directory: str, offset: int) -> str:
    return f"{directory}/{snapshot_file_name(offset)}"


def flush_small_files(filesystem: FileSystem, directory: str) -> None:
    """Flushes the small files, of which a power loss can otherwise leave empty ones."""
    for name in (LEADER_EPOCH_FILE, CHECKSUMS_FILE, PARTITION_METADATA_FILE):
        with suppress(FileNotFoundError):
            filesystem.size_and_age(f"{directory}/{name}")  # needs no descriptor
            sync_file(filesystem, f"{directory}/{name}")


def load_leader_epochs(filesystem: FileSystem, directory: str) -> LeaderEpochs:
    """Reads the epochs. A missing or corrupt file is rebuilt from the batches."""
    path = f"{directory}/{LEADER_EPOCH_FILE}"
    try:
        return LeaderEpochs.decode(read_file(filesystem, path))
    except FileNotFoundError:
        return LeaderEpochs()
    except MalformedCheckpoint as problem:
        logger.warning(
            "%s: checkpoint is corrupt (%s); rebuilding it from the batches", path, problem
        )
        return LeaderEpochs()


def save_leader_epochs(
    filesystem: FileSystem, directory: str, epochs: LeaderEpochs, *, durable: bool = False
) -> None:
    path = f"{directory}/{LEADER_EPOCH_FILE}"
    write_file(filesystem, path + ".tmp", epochs.encode())
    if durable:
        sync_file(filesystem, path + ".tmp")
    filesystem.rename(path + ".tmp", path)
