"""Decides what compaction keeps of a batch: all, some records, only the header, or nothing."""

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
    """The rules of one compaction round; batches must be passed in log order.

    The first round that finds a tombstone or an obsolete marker sets a delete horizon in its
    batch: now plus `delete.retention.ms`. Until then readers can see it (KIP-534).
    """

    keys: OffsetMap
    transactions: CleanedTransactions
    last_written: Mapping[int, LastWritten]  # by producer id
    end_offset: int  # end of the cleaned part; its last batch is kept, so that the end stays known
    now_ms: int
    delete_retention_ms: int
    records_read: int = 0
    records_kept: int = 0
    keyless_count: int = 0

    def filter(self, batch: RecordBatch) -> bytes | memoryview | None:
        """Returns the bytes that replace the batch, or None to remove it."""
        if batch.is_control:
            kept = self._filter_marker(batch)
        elif self.transactions.is_aborted(batch):
            kept = None
        else:
            kept = self._filter_records(batch)
        if kept is None and self._must_stay(batch):
            return _header_only(batch)
        return kept

    def _must_stay(self, batch: RecordBatch) -> bool:
        """Returns whether the header stays, for producer sequences or the cleaned end offset."""
        if batch.next_offset == self.end_offset:
            return True
        written = self.last_written.get(batch.producer_id) if batch.is_idempotent else None
        if written is None:
            return False
        if written.last_offset >= 0:
            return batch.last_offset == written.last_offset
        return batch.is_control and batch.producer_epoch == written.producer_epoch

    def _filter_marker(self, batch: RecordBatch) -> bytes | memoryview | None:
        if not self.transactions.is_marker_obsolete(batch):
            return batch.view
        if not batch.record_count or self._is_horizon_past(batch):
            return None
        if batch.has_delete_horizon:
            return batch.view
        payload = batch.payload()
        kept = list(record_spans(payload, batch.record_count))
        return self._rewritten(batch, payload, kept, begins_horizon=True)

    def _filter_records(self, batch: RecordBatch) -> bytes | memoryview | None:
        self.records_read += batch.record_count
        if batch.base_offset > self.keys.latest_offset:
            self.records_kept += batch.record_count
            return batch.view  # above the offset map: the next round filters it
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
        """Returns the records whose key has no later record."""
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
        """Encodes the batch with only these records, and a delete horizon if requested.

        The horizon is stored as base timestamp, to which all record timestamps are relative.
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


def _header_only(batch: RecordBatch) -> bytes | memoryview:
    """Encodes the batch without records; offsets and sequences are unchanged."""
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
    """Encodes the batch with other records; offsets, epochs and sequences are unchanged."""
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
