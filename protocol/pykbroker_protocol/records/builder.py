"""Builds a record batch."""

from collections.abc import Sequence

from pykbroker_protocol.late_dataclass import dataclass, field
from pykbroker_protocol.records.batch import (
    CONTROL_FLAG,
    LOG_APPEND_TIME_FLAG,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_FLAG,
    encode_batch,
)
from pykbroker_protocol.records.compression import Compression, compress
from pykbroker_protocol.records.record import Header, write_record


@dataclass(slots=True, kw_only=True)
class BatchBuilder:
    """Collects records in offset order and encodes them as one batch.

    `log_append_time_ms` replaces the timestamps of all records.
    """

    compression: Compression = Compression.NONE
    log_append_time_ms: int | None = None
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    base_sequence: int = NO_SEQUENCE
    is_transactional: bool = False
    is_control: bool = False
    base_offset: int = 0
    partition_leader_epoch: int = NO_LEADER_EPOCH
    record_count: int = field(default=0, init=False)
    _base_timestamp: int = field(default=NO_TIMESTAMP, init=False)
    _max_timestamp: int = field(default=NO_TIMESTAMP, init=False)
    _payload: bytearray = field(default_factory=bytearray, init=False)

    def append(
        self,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header] = (),
    ) -> int:
        """Adds a record and returns its offset."""
        if self.record_count == 0:
            self._base_timestamp = timestamp
        self._max_timestamp = max(self._max_timestamp, timestamp)
        offset_delta = self.record_count
        write_record(
            self._payload,
            offset_delta=offset_delta,
            timestamp_delta=timestamp - self._base_timestamp,
            key=key,
            value=value,
            headers=headers,
        )
        self.record_count += 1
        return self.base_offset + offset_delta

    @property
    def payload_bytes(self) -> int:
        """The uncompressed size of the appended records."""
        return len(self._payload)

    def build(self) -> bytes:
        assert self.record_count, "a batch has at least one record"
        log_append_time = self.log_append_time_ms
        return encode_batch(
            compress(self.compression, self._payload),
            attributes=self._attributes(),
            base_offset=self.base_offset,
            partition_leader_epoch=self.partition_leader_epoch,
            last_offset_delta=self.record_count - 1,
            base_timestamp=self._base_timestamp,
            max_timestamp=self._max_timestamp if log_append_time is None else log_append_time,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self.base_sequence,
            record_count=self.record_count,
        )

    def _attributes(self) -> int:
        attributes = int(self.compression)
        if self.log_append_time_ms is not None:
            attributes |= LOG_APPEND_TIME_FLAG
        if self.is_transactional:
            attributes |= TRANSACTIONAL_FLAG
        if self.is_control:
            attributes |= CONTROL_FLAG
        return attributes
