"""The state of one producer in a partition, and the checks of its next batch."""

from array import array
from collections.abc import Sequence

from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.late_dataclass import dataclass
from pykbroker_protocol.records.batch import (
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    SEQUENCE_MAX,
    RecordBatch,
)
from pykbroker_protocol.records.control import EndTransactionMarker

BATCHES_KEPT = 5  # a client has at most this many in flight
NO_OFFSET = -1
NO_COORDINATOR_EPOCH = -1
_BATCH_FIELDS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Duplicate:
    """The batch is in the log already, at these offsets and with this timestamp."""

    first_offset: int
    last_offset: int
    timestamp_ms: int


class Producer:
    """One producer; its recent batches are stored in one flat array, oldest first."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_timestamp_ms",
        "transaction_first_offset",
    )

    def __init__(self) -> None:
        self.epoch = NO_PRODUCER_EPOCH
        self.coordinator_epoch = NO_COORDINATOR_EPOCH
        self.last_timestamp_ms = NO_TIMESTAMP
        self.transaction_first_offset = NO_OFFSET
        # Per batch: last sequence, last offset, offset delta, timestamp.
        self.batches = array("q")

    def copy(self) -> "Producer":
        copied = Producer()
        copied.epoch = self.epoch
        copied.coordinator_epoch = self.coordinator_epoch
        copied.last_timestamp_ms = self.last_timestamp_ms
        copied.transaction_first_offset = self.transaction_first_offset
        copied.batches = self.batches[:]
        return copied

    @property
    def last_batch(self) -> Sequence[int]:
        """Last sequence, last offset, offset delta and timestamp of the last batch."""
        return self.batches[-_BATCH_FIELDS:] or _NO_BATCH

    @property
    def last_sequence(self) -> int:
        return self.batches[-_BATCH_FIELDS] if self.batches else NO_SEQUENCE

    def find(self, batch: RecordBatch) -> Duplicate | None:
        """Returns the stored copy of this batch if it is one of the last five."""
        if batch.producer_epoch != self.epoch:
            return None
        batches, last_sequence = self.batches, batch.last_sequence
        for at in range(0, len(batches), _BATCH_FIELDS):
            if batches[at] != last_sequence:
                continue
            _, last_offset, offset_delta, timestamp_ms = batches[at : at + _BATCH_FIELDS]
            if (last_sequence - offset_delta) & SEQUENCE_MAX == batch.base_sequence:
                return Duplicate(
                    first_offset=last_offset - offset_delta,
                    last_offset=last_offset,
                    timestamp_ms=timestamp_ms,
                )
        return None

    def refuse_epoch(self, batch: RecordBatch) -> Refusal | None:
        if batch.producer_epoch >= self.epoch:
            return None
        return _stale_epoch(batch.producer_id, batch.producer_epoch, self.epoch)

    def refuse_sequence(self, batch: RecordBatch) -> Refusal | None:
        if batch.producer_epoch == self.epoch:
            expected = (self.last_sequence + 1) & SEQUENCE_MAX
        else:
            expected = 0  # a new epoch starts at sequence 0
        if batch.base_sequence == expected:
            return None
        return Refusal(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"Producer {batch.producer_id} with epoch {batch.producer_epoch} sent sequence "
            f"{batch.base_sequence}, expected {expected}.",
        )

    def refuse_outside_transaction(self, batch: RecordBatch) -> Refusal | None:
        if batch.is_transactional or self.transaction_first_offset == NO_OFFSET:
            return None
        return Refusal(
            ErrorCode.INVALID_TXN_STATE,
            f"Producer {batch.producer_id} has an open transaction and sent a batch outside of it.",
        )

    def refuse_marker_epoch(self, epoch: int, *, is_strict: bool) -> Refusal | None:
        """Checks the epoch of a marker; a strict marker needs a newer epoch than all before.

        A retry of a written marker has the same epoch and finds no open transaction: it is accepted
        (KAFKA-19999).
        """
        if epoch > self.epoch:
            return None
        is_repeated = epoch == self.epoch and self.transaction_first_offset == NO_OFFSET
        if is_repeated or (epoch == self.epoch and not is_strict):
            return None
        return Refusal(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"The transaction marker has epoch {epoch}, the producer has {self.epoch}.",
        )

    def refuse_coordinator(self, marker: EndTransactionMarker) -> Refusal | None:
        if marker.coordinator_epoch >= self.coordinator_epoch:
            return None
        return Refusal(
            ErrorCode.TRANSACTION_COORDINATOR_FENCED,
            f"The coordinator epoch {marker.coordinator_epoch} is older than "
            f"{self.coordinator_epoch}.",
        )

    def add(self, batch: RecordBatch, first_offset: int) -> None:
        self._enter_epoch(batch.producer_epoch)
        if len(self.batches) == BATCHES_KEPT * _BATCH_FIELDS:
            del self.batches[:_BATCH_FIELDS]
        delta = batch.last_offset_delta
        self.batches.extend((batch.last_sequence, first_offset + delta, delta, batch.max_timestamp))
        self.last_timestamp_ms = batch.max_timestamp

    def end_transaction(self, batch: RecordBatch, marker: EndTransactionMarker) -> int:
        """Ends the open transaction; returns its first offset, or -1 if none was open."""
        self._enter_epoch(batch.producer_epoch)
        self.coordinator_epoch = marker.coordinator_epoch
        self.last_timestamp_ms = batch.max_timestamp
        first_offset, self.transaction_first_offset = self.transaction_first_offset, NO_OFFSET
        return first_offset

    def _enter_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch = epoch
            del self.batches[:]


_NO_BATCH = array("q", (NO_SEQUENCE, NO_OFFSET, 0, NO_TIMESTAMP))


def _stale_epoch(producer_id: int, epoch: int, current_epoch: int) -> Refusal:
    return Refusal(
        ErrorCode.INVALID_PRODUCER_EPOCH,
        f"Producer {producer_id} has epoch {current_epoch} now; the batch has epoch {epoch}.",
    )
