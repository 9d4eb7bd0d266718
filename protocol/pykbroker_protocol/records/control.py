"""Control records: transaction markers and records of the metadata log."""

from enum import IntEnum
from struct import Struct

from pykbroker_protocol.late_dataclass import dataclass
from pykbroker_protocol.records.batch import NO_LEADER_EPOCH
from pykbroker_protocol.records.builder import BatchBuilder
from pykbroker_protocol.records.corrupt import CorruptBatch

CONTROL_RECORD_VERSION = 0
_KEY = Struct(">hh")  # version, type
_END_TRANSACTION = Struct(">hi")  # version, coordinator epoch


class ControlRecordType(IntEnum):
    """The type of a control record; types from LEADER_CHANGE on occur only in the metadata log."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransactionMarker:
    """Commits or aborts the transaction of a producer in one partition."""

    is_commit: bool
    coordinator_epoch: int

    @property
    def type(self) -> ControlRecordType:
        return ControlRecordType.COMMIT if self.is_commit else ControlRecordType.ABORT


def control_key(record_type: ControlRecordType) -> bytes:
    return _KEY.pack(CONTROL_RECORD_VERSION, record_type)


def control_record_type(key: bytes | None) -> ControlRecordType | None:
    """Returns the type in the key of a control record, or None for an unknown, newer type."""
    if key is None or len(key) < _KEY.size:
        raise CorruptBatch("control record has no type")
    version, number = _KEY.unpack_from(key)
    if version < 0:
        raise CorruptBatch(f"control record has version {version}")
    return ControlRecordType(number) if number in _KNOWN_TYPES else None


def encode_marker(marker: EndTransactionMarker) -> bytes:
    """Encodes the value of a marker record; its key is `control_key(marker.type)`."""
    return _END_TRANSACTION.pack(CONTROL_RECORD_VERSION, marker.coordinator_epoch)


def decode_marker(key: bytes | None, value: bytes | None) -> EndTransactionMarker | None:
    """Decodes the marker of a control record; returns None for other types."""
    record_type = control_record_type(key)
    if record_type not in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
        return None
    if value is None or len(value) < _END_TRANSACTION.size:
        raise CorruptBatch("transaction marker has no coordinator epoch")
    version, coordinator_epoch = _END_TRANSACTION.unpack_from(value)
    if version < 0:
        raise CorruptBatch(f"transaction marker has version {version}")
    return EndTransactionMarker(
        is_commit=record_type is ControlRecordType.COMMIT, coordinator_epoch=coordinator_epoch
    )


def marker_batch(
    marker: EndTransactionMarker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    partition_leader_epoch: int = NO_LEADER_EPOCH,
) -> bytes:
    """Encodes the control batch that ends a transaction in a partition."""
    builder = BatchBuilder(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
        base_offset=base_offset,
        partition_leader_epoch=partition_leader_epoch,
    )
    builder.append(timestamp_ms, control_key(marker.type), encode_marker(marker))
    return builder.build()


_KNOWN_TYPES = frozenset(ControlRecordType)
