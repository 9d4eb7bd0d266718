"""Committed metadata records in order, as deltas: pure. Metadata transactions can span batches.

Records inside of a metadata transaction (KIP-868) are held back until its EndTransactionRecord, and
dropped at an AbortTransactionRecord.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.metadata.batches import UnfinishedTransaction
from pykbroker.metadata.records import decode_record
from pykbroker_protocol.metadata.cluster import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pykbroker.metadata.image import ImageDelta
    from pykbroker.metadata.replay import Replay
    from pykbroker.slices import Slices
    from pykbroker_protocol.message import Message
    from pykbroker_protocol.records.batch import RecordBatch

RECORDS_PER_SLICE = 128
RECORDS_PER_DELTA_MAX = 20_000
"""Bounds the memory of a delta and the time between two deliveries."""

TRANSACTION_RECORDS_MAX = 1_000_000
"""Bounds the records of a transaction that is not complete."""


class CommittedRecords:
    """Reads batches in order; keeps the open transaction between two calls."""

    def __init__(self, offset: int) -> None:
        self.next_offset = offset
        """Offset of the next batch to read."""
        self.applicable_offset = offset - 1
        """Offset of the last record that is not in an open transaction."""
        self._pending: list[Message] | None = None

    def restart(self, offset: int) -> None:
        self.next_offset = offset
        self.applicable_offset = offset - 1
        self._pending = None

    @property
    def has_open_transaction(self) -> bool:
        return self._pending is not None

    def collect(self, replay: Replay, batches: Iterable[RecordBatch]) -> Slices[ImageDelta]:
        """Returns the delta of some of the next batches.

        Yields between slices. Stops early, so that the caller delivers the delta; `next_offset` is
        where to continue.
        """
        applied = since_slice = 0
        for batch in batches:
            for offset, record in _records(batch):
                since_slice += 1
                for applicable in self._applicable(record):
                    replay.add(applicable)
                    applied += 1
                    since_slice += 1
                    if since_slice >= RECORDS_PER_SLICE:
                        since_slice = 0
                        yield
                if self._pending is None:
                    self.applicable_offset = offset
                elif since_slice >= RECORDS_PER_SLICE:
                    since_slice = 0
                    yield
            self.next_offset = batch.next_offset
            if self._pending is None:
                self.applicable_offset = batch.last_offset
                if applied >= RECORDS_PER_DELTA_MAX:
                    break
        return (yield from replay.finish(self.applicable_offset))

    def _applicable(self, record: Message) -> Iterable[Message]:
        """Returns the records that this one makes applicable."""
        match record:
            case BeginTransactionRecord():
                if self._pending is not None:
                    raise UnfinishedTransaction("a transaction begins inside another one")
                self._pending = []
            case EndTransactionRecord():
                if self._pending is None:
                    raise UnfinishedTransaction("a transaction ends that has not begun")
                applicable, self._pending = self._pending, None
                return applicable
            case AbortTransactionRecord():
                self._pending = None
            case _ if self._pending is not None:
                if len(self._pending) == TRANSACTION_RECORDS_MAX:
                    raise UnfinishedTransaction(
                        f"a transaction has more than {TRANSACTION_RECORDS_MAX} records"
                    )
                self._pending.append(record)
            case _:
                return (record,)
        return ()


def _records(batch: RecordBatch) -> Iterator[tuple[int, Message]]:
    """Returns the metadata records of a batch with their offsets; a control batch has none."""
    if batch.is_control:
        return
    for record in batch.records():
        if record.value is not None:
            yield record.offset, decode_record(record.value)
