"""The batches of the metadata log and its snapshots: of records, and of control records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.metadata.records import decode_record, encode_record
from pykbroker_protocol.compiler import encode
from pykbroker_protocol.metadata.cluster import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)
from pykbroker_protocol.metadata.control import LeaderChangeMessage, Voter
from pykbroker_protocol.records.builder import BatchBuilder
from pykbroker_protocol.records.control import ControlRecordType, control_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pykbroker.slices import Slices
    from pykbroker_protocol.message import Message
    from pykbroker_protocol.records.batch import RecordBatch

CONTROL_VERSION = 0
RECORDS_PER_SLICE = 128
"""To encode one takes as long as to serve several elements of a request."""


def record_batch(
    records: Iterable[Message], *, timestamp_ms: int, base_offset: int = 0, epoch: int = 0
) -> bytes:
    """The log replaces offset and epoch by its own when it appends the batch."""
    builder = BatchBuilder(base_offset=base_offset, partition_leader_epoch=epoch)
    for record in records:
        builder.append(timestamp_ms, None, encode_record(record))
    return builder.build()


def record_batch_in_slices(records: Sequence[Message], *, timestamp_ms: int) -> Slices[bytes]:
    """The same as `record_batch`, for the many records of one large command."""
    builder = BatchBuilder()
    for count, record in enumerate(records):
        if count % RECORDS_PER_SLICE == RECORDS_PER_SLICE - 1:
            yield
        builder.append(timestamp_ms, None, encode_record(record))
    return builder.build()


def control_batch(
    kind: ControlRecordType,
    message: Message,
    *,
    timestamp_ms: int,
    base_offset: int = 0,
    epoch: int = 0,
) -> bytes:
    builder = BatchBuilder(is_control=True, base_offset=base_offset, partition_leader_epoch=epoch)
    builder.append(timestamp_ms, control_key(kind), encode(message, CONTROL_VERSION))
    return builder.build()


def leader_change(leader_id: int, voters: Sequence[int], *, timestamp_ms: int) -> bytes:
    """Opens every epoch: who leads it, and that all voters were for it."""
    rows = [Voter(voter_id=voter) for voter in voters]
    message = LeaderChangeMessage(
        version=CONTROL_VERSION, leader_id=leader_id, voters=rows, granting_voters=rows
    )
    return control_batch(ControlRecordType.LEADER_CHANGE, message, timestamp_ms=timestamp_ms)


def records_of(batch: RecordBatch) -> Iterator[Message]:
    """The records of a batch; a control batch has none for the image."""
    if batch.is_control:
        return
    for record in batch.records():
        assert record.value is not None, f"offset {record.offset} has no value"
        yield decode_record(record.value)


class UnfinishedSpan(Exception):
    """The log ends between the begin of a span and its end."""


def without_spans(records: Iterable[Message]) -> Iterator[Message]:
    """The records that count, in order; those of a span come when it ends."""
    pending: list[Message] | None = None
    for record in records:
        match record:
            case BeginTransactionRecord():
                pending = []
            case EndTransactionRecord():
                yield from pending or ()
                pending = None
            case AbortTransactionRecord():
                pending = None
            case _ if pending is not None:
                pending.append(record)
            case _:
                yield record
    if pending is not None:
        raise UnfinishedSpan("the metadata log ends inside a transaction")
