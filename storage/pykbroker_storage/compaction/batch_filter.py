"""What compaction leaves of one batch: all of it, some records, its header alone, or nothing."""

from collections.abc import Mapping

from pykbroker_protocol.late_dataclass import dataclass
from pykbroker_protocol.records.batch import (
    COMPRESSION_MASK,
    DELETE_HORIZON_FLAG,
    LOG_APPEND_TIME_FLAG,
    NO_TIMESTAMP,
    RecordBatch,
    encode_batch,
)
from pykbroker_protocol.records.compression import compress
from pykbroker_protocol.records.varint import int64
from pykbroker_storage.compaction.job import LastWritten
from pykbroker_storage.compaction.offset_map import OffsetMap
from pykbroker_storage.compaction.record_spans import (
    RecordSpan,
    record_spans,
    shifted,
    timestamp_delta,
)
from pykbroker_storage.compaction.transactions import CleanedTransactions

TIMESTAMP_MAX = 2**63 - 1


@dataclass(slots=True, kw_only=True)
class BatchFilter:
    """The rules of one round of compaction; show it every batch, in order.

    The first round that meets a tombstone, or a marker that ends nothing any longer, notes in
    its batch until when it must stay: `delete.retention.ms` from then. So readers have time to
    learn of it (KIP-534).
    """

    keys: OffsetMap
    transactions: CleanedTransactions
    last_written: Mapping[int, LastWritten]  # by producer
    end_offset: int  # of what is cleaned: its last batch stays, so that offsets have no holes there
    now_ms: int
    delete_retention_ms: int
    records_read: int = 0
    records_kept: int = 0
    keyless_count: int = 0

    def left_of(self, batch: RecordBatch) -> bytes | memoryview | None:
        """The batch's bytes from now on, or None."""
        if batch.is_control:
            left = self._left_of_marker(batch)
        elif self.transactions.is_aborted(batch):
            left = None
        else:
            left = self._left_of_records(batch)
        if left is None and self._must_stay(batch):
            return _header_alone(batch)
        return left

    def _must_stay(self, batch: RecordBatch) -> bool:
        """Producers' sequences, and where the log has been cleaned to, follow from headers."""
        if batch.next_offset == self.end_offset:
            return True
        written = self.last_written.get(batch.producer_id) if batch.is_idempotent else None
        if written is None:
            return False
        if written.last_offset >= 0:
            return batch.last_offset == written.last_offset
        return batch.is_control and batch.producer_epoch == written.producer_epoch

    def _left_of_marker(self, batch: RecordBatch) -> bytes | memoryview | None:
        if not self.transactions.is_marker_obsolete(batch):
            return batch.view
        if not batch.record_count or self._is_horizon_past(batch):
            return None
        if batch.has_delete_horizon:
            return batch.view
        payload = batch.payload()
        kept = list(record_spans(payload, batch.record_count))
        return self._rewritten(batch, payload, kept, begins_horizon=True)

    def _left_of_records(self, batch: RecordBatch) -> bytes | memoryview | None:
        self.records_read += batch.record_count
        if batch.base_offset > self.keys.latest_offset:
            self.records_kept += batch.record_count
            return batch.view  # not yet known: a later round looks at it
        payload = batch.payload()
        kept = self._kept(batch, payload)
        if not kept:
            return None
        self.records_kept += len(kept)
        begins_horizon = not batch.has_delete_horizon and any(it[5] for it in kept)
        if len(kept) == batch.record_count and not begins_horizon:
            return batch.view
        return self._rewritten(batch, payload, kept, begins_horizon=begins_horizon)

    def _kept(self, batch: RecordBatch, payload: bytes) -> list[RecordSpan]:
        """Those of whose key no later record is known."""
        kept = []
        base_offset, is_horizon_past = batch.base_offset, self._is_horizon_past(batch)
        latest_offset, last_offset_of = self.keys.latest_offset, self.keys.get
        for span in record_spans(payload, batch.record_count):
            _, _, _, offset_delta, key, is_tombstone = span
            offset = base_offset + offset_delta
            if offset <= latest_offset:
                if key is None:
                    self.keyless_count += 1
                    continue
                if offset < last_offset_of(key) or (is_tombstone and is_horizon_past):
                    continue
            kept.append(span)
        return kept

    def _is_horizon_past(self, batch: RecordBatch) -> bool:
        return batch.has_delete_horizon and batch.base_timestamp <= self.now_ms

    def _rewritten(
        self,
        batch: RecordBatch,
        payload: bytes,
        kept: list[RecordSpan],
        *,
        begins_horizon: bool,
    ) -> bytes:
        """The batch with these records only, and perhaps with a delete horizon from now on.

        The horizon takes the place of the base timestamp, from which all timestamps count.
        """
        attributes, base_timestamp = batch.attributes, batch.base_timestamp
        if begins_horizon:
            attributes |= DELETE_HORIZON_FLAG
            base_timestamp = min(self.now_ms + self.delete_retention_ms, TIMESTAMP_MAX)
            later_by_ms = base_timestamp - batch.base_timestamp
            records = b"".join(shifted(payload, span, later_by_ms) for span in kept)
        else:
            records = b"".join(payload[start:end] for start, end, *_ in kept)
        max_timestamp = batch.max_timestamp
        if not attributes & LOG_APPEND_TIME_FLAG:
            max_timestamp = max(
                int64(batch.base_timestamp + timestamp_delta(payload, span)) for span in kept
            )
        return _encoded(
            batch,
            compress(batch.compression, records),
            attributes=attributes,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            record_count=len(kept),
        )


def _header_alone(batch: RecordBatch) -> bytes | memoryview:
    """The batch without records; offsets and sequences are those it had."""
    if not batch.record_count:
        return batch.view
    return _encoded(
        batch,
        b"",
        attributes=batch.attributes & ~COMPRESSION_MASK & ~DELETE_HORIZON_FLAG,
        base_timestamp=NO_TIMESTAMP,
        max_timestamp=batch.max_timestamp,
        record_count=0,
    )


def _encoded(
    batch: RecordBatch,
    records: bytes,
    *,
    attributes: int,
    base_timestamp: int,
    max_timestamp: int,
    record_count: int,
) -> bytes:
    """The batch with other records in it; where and by whom it was written stays."""
    return encode_batch(
        records,
        attributes=attributes,
        base_offset=batch.base_offset,
        partition_leader_epoch=batch.partition_leader_epoch,
        last_offset_delta=batch.last_offset_delta,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        record_count=record_count,
    )
