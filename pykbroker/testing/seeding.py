"""Appends records to a broker in this process, without a client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.partitions.admission import ToInspect, admit, inspect
from pykbroker.testing.inspection import partitions_of
from pykbroker.testing.rows import as_bytes, as_row, row_list
from pykbroker_protocol.partitioner import partition_of_key
from pykbroker_protocol.records.batch import RecordBatch
from pykbroker_protocol.records.builder import BatchBuilder
from pykbroker_protocol.records.times import no_pause
from pykbroker_storage.log import AppendResult

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pykbroker.broker import Broker
    from pykbroker.partitions.admission import RecordsRefused
    from pykbroker.partitions.partition import Partition
    from pykbroker.testing.rows import Key, Row, Value
    from pykbroker_protocol.errors import Refusal

BATCH_BYTES = 256 * 1024
PRODUCE_VERSION = 13
LEADER_ALONE = 1


class NotWritten(Exception):
    """Raised if the broker rejects a row for the reason for which it rejects a produce request."""


def produce(
    broker: Broker,
    topic: str,
    rows: Iterable[Value | Row],
    *,
    key: Key | None = None,
    partition: int | None = None,
) -> int:
    """Appends the rows in order and returns their number."""
    batches = BatchWriter(broker, topic, partition)
    for row in row_list(rows):
        batches.add(as_row(row, key))
    batches.finish()
    return batches.count


class BatchWriter:
    """Collects one batch per partition and appends a full batch at once."""

    def __init__(self, broker: Broker, topic: str, partition: int | None) -> None:
        self.partitions: Sequence[Partition] = partitions_of(broker, topic)
        self.now_ms = broker.clock.now_ms()
        self.given = partition
        self.count = 0
        self.batches: dict[int, BatchBuilder] = {}

    def add(self, row: Row) -> None:
        key = as_bytes(row.key)
        index = self.partition_for(row, key)
        batch = self.batches.setdefault(index, BatchBuilder())
        batch.append(
            self.now_ms if row.timestamp_ms is None else row.timestamp_ms,
            key,
            as_bytes(row.value),
            [(name, as_bytes(it)) for name, it in row.headers.items()],
        )
        self.count += 1
        if batch.payload_bytes >= BATCH_BYTES:
            self.write(index, self.batches.pop(index))

    def partition_for(self, row: Row, key: bytes | None) -> int:
        """The given partition, else the partition of the key's hash, else round robin."""
        chosen = self.given if row.partition is None else row.partition
        if chosen is None:
            count = len(self.partitions)
            return self.count % count if key is None else partition_of_key(key, count)
        if not 0 <= chosen < len(self.partitions):
            raise NotWritten(f"topic {self.partitions[0].topic!r} has no partition {chosen}")
        return chosen

    def finish(self) -> None:
        for index, batch in self.batches.items():
            self.write(index, batch)

    def write(self, index: int, batch: BatchBuilder) -> None:
        partition, now_ms = self.partitions[index], self.now_ms
        records = memoryview(bytearray(batch.build()))
        outcome: AppendResult | ToInspect | RecordBatch | Refusal | RecordsRefused
        outcome = partition.leader.refusal_to_write(LEADER_ALONE) or admit(
            records, partition.settings, PRODUCE_VERSION, now_ms
        )
        if isinstance(outcome, ToInspect):
            outcome = inspect(outcome.batch, partition.settings, now_ms, no_pause)
        if isinstance(outcome, RecordBatch):
            outcome = partition.leader.write_once(outcome, now_ms)
        if not isinstance(outcome, AppendResult):
            reason = getattr(outcome, "message", None) or outcome.code.sentence
            raise NotWritten(f"{self.partitions[index]}: {outcome.code.name}: {reason}")
