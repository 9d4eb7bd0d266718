"""The small files beside the segments: leader epochs, producer snapshots, the topic's id."""

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
from pykbroker_storage.segment import Segment
from pykbroker_storage.transaction_index_checksums import CHECKSUMS_FILE

logger = logging.getLogger(__name__)

PRODUCERS_PER_SLICE = 1_000
"""Encoding them takes about half a millisecond."""


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
    """A producer snapshot that is encoded in slices, while the log goes on.

    A crash before it is written costs time only: the next start reads the batches since the
    snapshot before.
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
        """Encodes one slice after the other; between two of them the producers may change."""
        producers = iter(self._frozen.items())
        while entries := encode_producers(islice(producers, PRODUCERS_PER_SLICE)):
            self._entries.append(entries)
            yield

    def write(self) -> None:
        """Writes what is encoded into a file beside; may run on another thread.

        Piece by piece: joining them would hold the interpreter lock for tens of milliseconds.
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

    def finish(self, *, is_wanted: bool) -> None:
        """Puts the file in its place, or removes it."""
        self._producers.thaw(self._frozen)
        if is_wanted:
            self._filesystem.rename(self._unfinished, snapshot_path(self._directory, self.offset))
            return
        with suppress(FileNotFoundError):
            self._filesystem.unlink(self._unfinished)

    @property
    def _unfinished(self) -> str:
        return f"{snapshot_path(self._directory, self.offset)}.tmp"


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


def flush_small_files(filesystem: FileSystem, directory: str) -> None:
    """Or a power cut may leave their names without their content."""
    for name in (LEADER_EPOCH_FILE, CHECKSUMS_FILE, PARTITION_METADATA_FILE):
        with suppress(FileNotFoundError):
            filesystem.size_and_age(f"{directory}/{name}")  # needs no descriptor
            sync_file(filesystem, f"{directory}/{name}")


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
