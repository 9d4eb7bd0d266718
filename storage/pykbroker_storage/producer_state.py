"""The producers of a partition: detects duplicate batches and tracks open transactions.

Per producer id: its epoch, its last five batches, the start of its open transaction. All of it
derives from the log; a snapshot saves reading the log from its start.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from struct import Struct
from typing import Self

from pykbroker_protocol.errors import Refusal
from pykbroker_protocol.late_dataclass import dataclass
from pykbroker_protocol.records.batch import NO_PRODUCER_ID, RecordBatch
from pykbroker_protocol.records.control import EndTransactionMarker, decode_marker
from pykbroker_protocol.records.crc32c import checksum
from pykbroker_storage.producer import NO_OFFSET, Duplicate, Producer
from pykbroker_storage.transaction_index import AbortedTransaction

STRICT_EPOCHS_SINCE = 2  # the first transaction.version that bumps the epoch with every marker


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedTransaction:
    """A transaction that was ended by the marker at `last_offset`."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool
    last_stable_offset: int  # last stable offset directly after the marker

    def as_aborted(self) -> AbortedTransaction:
        return AbortedTransaction(
            producer_id=self.producer_id,
            first_offset=self.first_offset,
            last_offset=self.last_offset,
            last_stable_offset=self.last_stable_offset,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveProducer:
    """A producer as in DescribeProducers; -1 means none."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    transaction_first_offset: int


class ProducerStates:
    """The producers of a log. `check` before an append, `update` after it, in log order."""

    __slots__ = ("_completed", "_frozen", "_open", "_producers")

    def __init__(
        self,
        producers: Iterable[tuple[int, Producer]] = (),
        open_transactions: Iterable[tuple[int, int]] = (),
        completed_transactions: Iterable[tuple[int, int]] = (),
    ) -> None:
        self._producers: dict[int, Producer] = dict(producers)
        # The last copy returned by `freeze`, until it is released.
        self._frozen: dict[int, Producer] | None = None
        # First offset -> producer id. In log order, so the first key is the lowest.
        self._open: dict[int, int] = dict(open_transactions)
        # First offset -> marker offset, until the high watermark passes the marker.
        self._completed: dict[int, int] = dict(completed_transactions)

    def __len__(self) -> int:
        return len(self._producers)

    def check(
        self, batch: RecordBatch, *, has_sequences: bool = True
    ) -> Duplicate | Refusal | None:
        """Returns None if a batch of records may be appended.

        Batches of a coordinator have an epoch but no sequences. An unknown producer may start with
        any sequence, because its earlier batches may have been deleted.
        """
        producer = self._producers.get(batch.producer_id)
        if producer is None:
            return None
        if not has_sequences:
            return producer.refuse_epoch(batch) or producer.refuse_outside_transaction(batch)
        return (
            producer.find(batch)
            or producer.refuse_epoch(batch)
            or producer.refuse_sequence(batch)
            or producer.refuse_outside_transaction(batch)
        )

    def check_marker(
        self,
        marker: EndTransactionMarker,
        *,
        producer_id: int,
        producer_epoch: int,
        transaction_version: int = 0,
    ) -> Refusal | None:
        """Returns None if a transaction marker may be appended."""
        producer = self._producers.get(producer_id)
        if producer is None:
            return None
        return producer.refuse_marker_epoch(
            producer_epoch, is_strict=transaction_version >= STRICT_EPOCHS_SINCE
        ) or producer.refuse_coordinator(marker)

    def update(
        self, batch: RecordBatch, base_offset: int | None = None
    ) -> CompletedTransaction | None:
        """Records an appended batch; `base_offset` overrides the offset in the batch.

        Returns the transaction that the batch ended, if it was a marker.
        """
        if batch.producer_id == NO_PRODUCER_ID:
            return None
        first_offset = batch.base_offset if base_offset is None else base_offset
        if batch.is_control:
            return self._end_transaction(batch, first_offset)
        producer = self._producer(batch.producer_id)
        producer.add(batch, first_offset)
        if batch.is_transactional and producer.transaction_first_offset == NO_OFFSET:
            producer.transaction_first_offset = first_offset
            self._open[first_offset] = batch.producer_id
        return None

    def is_in_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """Returns whether this producer, in this epoch, has an open transaction here."""
        producer = self._producers.get(producer_id)
        return (
            producer is not None
            and producer.transaction_first_offset != NO_OFFSET
            and producer.epoch == producer_epoch
        )

    def ids(self) -> list[int]:
        return list(self._producers)

    def get(self, producer_id: int) -> Producer | None:
        """Returns a producer's state, which only `update` changes."""
        return self._producers.get(producer_id)

    def __contains__(self, producer_id: int) -> bool:
        return producer_id in self._producers

    @property
    def first_unstable_offset(self) -> int | None:
        """Start of the oldest transaction that is open or whose marker is not replicated yet."""
        undecided = self.first_undecided_offset
        if not self._completed:
            return undecided
        unreplicated = min(self._completed)
        return unreplicated if undecided is None else min(undecided, unreplicated)

    @property
    def first_undecided_offset(self) -> int | None:
        """Start of the oldest open transaction."""
        return next(iter(self._open), None)

    def advance_high_watermark(self, high_watermark: int) -> None:
        """Marks transactions stable whose marker is below `high_watermark`."""
        if self._completed:
            self._completed = {
                first_offset: marker_offset
                for first_offset, marker_offset in self._completed.items()
                if marker_offset >= high_watermark
            }

    def expire(self, now_ms: int, producer_id_expiration_ms: int) -> int:
        """Removes inactive producers without an open transaction; returns their number."""
        expired = [
            producer_id
            for producer_id, producer in self._producers.items()
            if producer.transaction_first_offset == NO_OFFSET
            and now_ms - producer.last_timestamp_ms >= producer_id_expiration_ms
        ]
        for producer_id in expired:
            del self._producers[producer_id]
        return len(expired)

    def without(self, removed: Collection[int], end_offset: int) -> Self:
        """Returns states that lack these producers and markers at `end_offset` or above."""
        return type(self)(
            (it for it in self._producers.items() if it[0] not in removed),
            (it for it in self._open.items() if it[1] not in removed),
            (it for it in self._completed.items() if it[1] < end_offset),
        )

    def take(self, producer_ids: Collection[int], other: Self) -> None:
        """Adds the states of these producers from `other`; `sort_transactions` must follow."""
        for producer_id in producer_ids:
            producer = other.get(producer_id)
            if producer is not None:
                self._producers[producer_id] = producer
                if producer.transaction_first_offset != NO_OFFSET:
                    self._open[producer.transaction_first_offset] = producer_id

    def sort_transactions(self) -> None:
        """Restores the order of open transactions."""
        self._open = dict(sorted(self._open.items()))

    def active(self) -> Iterator[ActiveProducer]:
        for producer_id, producer in self._producers.items():
            yield ActiveProducer(
                producer_id=producer_id,
                producer_epoch=producer.epoch,
                last_sequence=producer.last_sequence,
                last_timestamp_ms=producer.last_timestamp_ms,
                coordinator_epoch=producer.coordinator_epoch,
                transaction_first_offset=producer.transaction_first_offset,
            )

    def last_written(self) -> Iterator[tuple[int, int, int]]:
        """Yields each producer's id, the last offset of its batches (-1: unknown), its epoch."""
        for producer_id, producer in self._producers.items():
            yield producer_id, producer.last_batch[1], producer.epoch

    def encode(self) -> bytes:
        """Encodes a `.snapshot` file, version 1: only the last batch of each producer."""
        return b"".join(snapshot_pieces([encode_producers(self._producers.items())]))

    def freeze(self) -> dict[int, Producer]:
        """Returns the present states; until `thaw`, each producer is copied before it changes.

        Another `freeze` leaves earlier copies unchanged.
        """
        self._frozen = self._producers.copy()
        return self._frozen

    def thaw(self, frozen: dict[int, Producer]) -> None:
        if self._frozen is frozen:
            self._frozen = None

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Decodes a `.snapshot` file; raises `CorruptSnapshot`."""
        states = cls()
        for producer_id, producer in _read_snapshot(data):
            states._producers[producer_id] = producer
        states._open = dict(
            sorted(
                (producer.transaction_first_offset, producer_id)
                for producer_id, producer in states._producers.items()
                if producer.transaction_first_offset != NO_OFFSET
            )
        )
        return states

    def _producer(self, producer_id: int) -> Producer:
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = self._producers[producer_id] = Producer()
        elif self._frozen is not None and self._frozen.get(producer_id) is producer:
            producer = self._producers[producer_id] = producer.copy()
        return producer

    def _end_transaction(self, batch: RecordBatch, offset: int) -> CompletedTransaction | None:
        marker = next((decode_marker(record.key, record.value) for record in batch.records()), None)
        if marker is None:  # removed by compaction, or another control record type
            return None
        producer = self._producer(batch.producer_id)
        first_offset = producer.end_transaction(batch, marker)
        if first_offset == NO_OFFSET:
            return None
        del self._open[first_offset]
        self._completed[first_offset] = offset
        undecided = self.first_undecided_offset
        return CompletedTransaction(
            producer_id=batch.producer_id,
            first_offset=first_offset,
            last_offset=offset,
            is_aborted=not marker.is_commit,
            last_stable_offset=offset + 1 if undecided is None else undecided,
        )


# The snapshot file, declared in `formats.PRODUCER_SNAPSHOT`. Decoded with `struct`, because every
# start reads it and importing `construct` takes too long.

SNAPSHOT_SUFFIX = ".snapshot"
SNAPSHOT_VERSION = 1
_SNAPSHOT_HEADER = Struct(">hI")  # version, CRC of all bytes after it
_COUNT = Struct(">i")
_SNAPSHOT_ENTRY = Struct(">qhiqiqiq")


class CorruptSnapshot(ValueError):
    """A producer snapshot is corrupt; the log before it must be read instead."""


def snapshot_file_name(offset: int) -> str:
    """Returns the name of the snapshot of all batches below `offset`."""
    return f"{offset:020d}{SNAPSHOT_SUFFIX}"


def _read_snapshot(data: bytes) -> Iterator[tuple[int, Producer]]:
    entries = memoryview(data)[_SNAPSHOT_HEADER.size :]
    if len(entries) < _COUNT.size:
        raise CorruptSnapshot(f"file has only {len(data)} bytes")
    version, crc = _SNAPSHOT_HEADER.unpack_from(data)
    if version != SNAPSHOT_VERSION:
        raise CorruptSnapshot(f"version {version} is unknown")
    if checksum(entries) != crc:
        raise CorruptSnapshot("checksum does not match")
    (count,) = _COUNT.unpack_from(entries)
    if len(entries) != _COUNT.size + count * _SNAPSHOT_ENTRY.size:
        raise CorruptSnapshot(f"{count} producers do not match {len(entries)} bytes")
    for fields in _SNAPSHOT_ENTRY.iter_unpack(entries[_COUNT.size :]):
        yield _producer_of(fields)


def snapshot_pieces(entries: Sequence[bytes]) -> Iterator[bytes]:
    """Yields the parts of a `.snapshot` file with entries from `encode_producers`, in order."""
    count = _COUNT.pack(sum(map(len, entries)) // _SNAPSHOT_ENTRY.size)
    crc = checksum(count)
    for piece in entries:
        crc = checksum(piece, crc)
    yield _SNAPSHOT_HEADER.pack(SNAPSHOT_VERSION, crc) + count
    yield from entries


def encode_producers(producers: Iterable[tuple[int, Producer]]) -> bytes:
    return b"".join(_encode_producer(producer_id, producer) for producer_id, producer in producers)


def _encode_producer(producer_id: int, producer: Producer) -> bytes:
    last_sequence, last_offset, offset_delta, _ = producer.last_batch
    return _SNAPSHOT_ENTRY.pack(
        producer_id,
        producer.epoch,
        last_sequence,
        last_offset,
        offset_delta,
        producer.last_timestamp_ms,
        producer.coordinator_epoch,
        producer.transaction_first_offset,
    )


def _producer_of(fields: tuple[int, ...]) -> tuple[int, Producer]:
    producer = Producer()
    (
        producer_id,
        producer.epoch,
        last_sequence,
        last_offset,
        offset_delta,
        producer.last_timestamp_ms,
        producer.coordinator_epoch,
        producer.transaction_first_offset,
    ) = fields
    if last_offset >= 0:
        producer.batches.extend(
            (last_sequence, last_offset, offset_delta, producer.last_timestamp_ms)
        )
    return producer_id, producer
