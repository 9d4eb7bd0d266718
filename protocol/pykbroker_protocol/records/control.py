"""Control records: what brokers write between the records of producers."""

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
    """What a control record says; those from LEADER_CHANGE on live in the metadata log only."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransactionMarker:
    """Ends a producer's transaction on one partition."""

    is_commit: bool
    coordinator_epoch: int

    @property
    def type(self) -> ControlRecordType:
        return ControlRecordType.COMMIT if self.is_commit else ControlRecordType.ABORT


def control_key(record_type: ControlRecordType) -> bytes:
    return _KEY.pack(CONTROL_RECORD_VERSION, record_type)


def control_record_type(key: bytes | None) -> ControlRecordType | None:
    """The type in a control record's key; None for one that is newer than this code."""
    if key is None or len(key) < _KEY.size:
        raise CorruptBatch("a control record without a type")
    version, number = _KEY.unpack_from(key)
    if version < 0:
        raise CorruptBatch(f"a control record of version {version}")
    return ControlRecordType(number) if number in _KNOWN_TYPES else None


def encode_marker(marker: EndTransactionMarker) -> bytes:
    """The value of the marker's record; its key is `control_key(marker.type)`."""
    return _END_TRANSACTION.pack(CONTROL_RECORD_VERSION, marker.coordinator_epoch)


def decode_marker(key: bytes | None, value: bytes | None) -> EndTransactionMarker | None:
    """The marker in a control record; None if it says something else."""
    record_type = control_record_type(key)
    if record_type not in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
        return None
    if value is None or len(value) < _END_TRANSACTION.size:
        raise CorruptBatch("a marker that ends a transaction without a coordinator epoch")
    version, coordinator_epoch = _END_TRANSACTION.unpack_from(value)
    if version < 0:
        raise CorruptBatch(f"a marker of version {version}")
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
    """The control batch of one record by which a partition learns a transaction's end."""
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
