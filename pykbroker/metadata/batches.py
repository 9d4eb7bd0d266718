"""Batches of the metadata log and its snapshots: metadata records and control records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.metadata.features import METADATA_VERSION_LEVEL
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
"""Encoding one record takes as long as serving several elements of a request."""


def record_batch(
    records: Iterable[Message],
    *,
    timestamp_ms: int,
    base_offset: int = 0,
    epoch: int = 0,
    metadata_version: int = METADATA_VERSION_LEVEL,
) -> bytes:
    """Encodes records as one batch. The log sets offset and epoch when it appends the batch."""
    builder = BatchBuilder(base_offset=base_offset, partition_leader_epoch=epoch)
    for record in records:
        builder.append(timestamp_ms, None, encode_record(record, metadata_version))
    return builder.build()


def record_batch_in_slices(records: Sequence[Message], *, timestamp_ms: int) -> Slices[bytes]:
    """Like `record_batch`, for commands with many records."""
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
    """LeaderChangeMessage, the first record of each epoch: leader, voters, granted votes."""
    rows = [Voter(voter_id=voter) for voter in voters]
    message = LeaderChangeMessage(
        version=CONTROL_VERSION, leader_id=leader_id, voters=rows, granting_voters=rows
    )
    return control_batch(ControlRecordType.LEADER_CHANGE, message, timestamp_ms=timestamp_ms)


def records_of(batch: RecordBatch) -> Iterator[Message]:
    """Returns the metadata records of a batch; a control batch has none."""
    if batch.is_control:
        return
    for record in batch.records():
        assert record.value is not None, f"offset {record.offset} has no value"
        yield decode_record(record.value)


class UnfinishedTransaction(Exception):
    """The log ends inside a metadata transaction."""


def committed_records(records: Iterable[Message]) -> Iterator[Message]:
    """Returns records outside of metadata transactions and of those that end with a commit.

    A metadata transaction (KIP-868) spans batches. Apache Kafka writes such transactions; this
    controller does not, because the records of a command are one batch.
    """
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
        raise UnfinishedTransaction("the metadata log ends inside a transaction")
