"""Prepares batches for an append: stamps those of producers, validates those of a leader."""

from collections.abc import Sequence

from pykbroker_protocol.records.batch import (
    CHECKED_FROM,
    COMPRESSION_MASK,
    CONTROL_FLAG,
    LOG_APPEND_TIME_FLAG,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    RecordBatch,
    iterate_batches,
    stamp_log_append_time,
)
from pykbroker_protocol.records.compression import Compression
from pykbroker_protocol.records.control import decode_marker
from pykbroker_protocol.records.corrupt import CorruptBatch, TruncatedBatch
from pykbroker_protocol.records.crc32c import checksum
from pykbroker_storage.index import RELATIVE_OFFSET_MAX

OFFSET_MAX = 2**63 - 2  # the log end offset after it must fit into an i64
RECORDS_BYTES_MAX = 2**31 - 1  # positions in a segment are i32


class InvalidReplicatedBatch(Exception):
    """Batches from a leader cannot be appended; the message states the offset and the rule."""


def stamp_batches(
    records: bytearray | memoryview,
    batches: Sequence[RecordBatch],
    base_offset: int,
    leader_epoch: int,
    log_append_time_ms: int,
) -> int:
    """Writes offsets, leader epoch and perhaps the append time into producer batches.

    Changes both the bytes and the decoded headers; returns the offset after the last batch.
    """
    position = 0
    for batch in batches:
        batch.assign_offsets(base_offset, leader_epoch)
        if log_append_time_ms != NO_TIMESTAMP:
            stamp_log_append_time(records, position, log_append_time_ms)
            batch.max_timestamp = log_append_time_ms
            batch.attributes |= LOG_APPEND_TIME_FLAG
        base_offset += batch.last_offset_delta + 1
        position += batch.size_bytes
    assert position == len(records), "the batches are not those of the records"
    return base_offset


def parse_replicated(
    records: bytes | bytearray | memoryview,
    *,
    log_end_offset: int,
    latest_epoch: int,
    leader_epoch: int,
    allows_gaps: bool,
) -> list[RecordBatch]:
    """Decodes and validates batches as a follower received them from its leader.

    Offsets must ascend from the log end. Compaction leaves gaps between batches, so gaps are
    valid unless `allows_gaps` is False. Leader epochs must not decrease, and not exceed the
    epoch of the leader that sent the batches. Raises `InvalidReplicatedBatch`.
    """
    if not 0 < len(records) <= RECORDS_BYTES_MAX:
        raise InvalidReplicatedBatch(
            f"expected 1 to {RECORDS_BYTES_MAX} bytes of batches, received {len(records)}"
        )
    batches = []
    offset = log_end_offset
    try:
        for batch in iterate_batches(records):
            _validate(batch, offset, latest_epoch, leader_epoch, allows_gaps=allows_gaps)
            batches.append(batch)
            offset, latest_epoch = batch.next_offset, batch.partition_leader_epoch
    except CorruptBatch as problem:
        raise _corrupt(offset, problem) from problem
    if offset - batches[0].base_offset > RELATIVE_OFFSET_MAX:
        raise InvalidReplicatedBatch(
            f"offsets {batches[0].base_offset} to {offset - 1} do not fit into one segment"
        )
    return batches


def next_replicated(
    records: memoryview,
    *,
    log_end_offset: int,
    latest_epoch: int,
    leader_epoch: int,
    allows_gaps: bool,
    batches_max: int,
) -> list[RecordBatch]:
    """Decodes and validates the next batches of a Fetch response, at most `batches_max`.

    A leader cuts its response at a size limit, so the last batch can be incomplete; it is left
    out. So are batches with a later epoch than that of the request: the leader has changed since.
    The result is empty if only such batches are left. The rules are those of `parse_replicated`.
    """
    batches: list[RecordBatch] = []
    offset, position, end = log_end_offset, 0, len(records)
    try:
        while position < end and len(batches) < batches_max:
            batch = RecordBatch.parse(records, position)
            epoch = batch.partition_leader_epoch
            if epoch > leader_epoch:
                break
            if not _is_usual(batch, offset, latest_epoch):  # states the rule in an exception
                _validate(batch, offset, latest_epoch, leader_epoch, allows_gaps=allows_gaps)
            following = batch.base_offset + batch.last_offset_delta + 1
            if batches and following - batches[0].base_offset > RELATIVE_OFFSET_MAX:
                break  # compaction has left a gap that does not fit into one segment
            batches.append(batch)
            offset, latest_epoch = following, epoch
            position += batch.size_bytes
    except TruncatedBatch:
        pass
    except CorruptBatch as problem:
        raise _corrupt(offset, problem) from problem
    return batches


def _is_usual(batch: RecordBatch, expected_offset: int, latest_epoch: int) -> bool:
    """Returns True for a valid batch of records without a gap; `_validate` checks all others."""
    return (
        batch.base_offset == expected_offset
        and batch.partition_leader_epoch >= latest_epoch
        and batch.record_count <= batch.last_offset_delta + 1
        and not batch.attributes & CONTROL_FLAG
        and batch.attributes & COMPRESSION_MASK <= Compression.ZSTD
        and expected_offset + batch.last_offset_delta <= OFFSET_MAX
        and checksum(batch.view[CHECKED_FROM:]) == batch.crc
    )


def _corrupt(offset: int, problem: CorruptBatch) -> InvalidReplicatedBatch:
    return InvalidReplicatedBatch(f"corrupt batch after offset {offset - 1}: {problem}")


def _validate(
    batch: RecordBatch,
    expected_offset: int,
    latest_epoch: int,
    leader_epoch: int,
    *,
    allows_gaps: bool,
) -> None:
    _validate_position(batch, expected_offset, allows_gaps=allows_gaps)
    _validate_epoch(batch, latest_epoch, leader_epoch)
    _validate_content(batch)


def _validate_position(batch: RecordBatch, expected: int, *, allows_gaps: bool) -> None:
    if batch.base_offset < expected or batch.last_offset > OFFSET_MAX:
        raise InvalidReplicatedBatch(
            f"batch has offsets {batch.base_offset} to {batch.last_offset}, "
            f"expected them from {expected}"
        )
    if batch.base_offset > expected and not allows_gaps:
        raise InvalidReplicatedBatch(
            f"offsets {expected} to {batch.base_offset - 1} are missing before a batch"
        )


def _validate_epoch(batch: RecordBatch, latest_epoch: int, leader_epoch: int) -> None:
    if not latest_epoch <= batch.partition_leader_epoch <= leader_epoch:
        raise InvalidReplicatedBatch(
            f"batch at offset {batch.base_offset} has leader epoch {batch.partition_leader_epoch}, "
            f"expected {latest_epoch} to {leader_epoch}"
        )


def _validate_content(batch: RecordBatch) -> None:
    """Checks CRC, record count and, in a control batch, the marker that the append decodes."""
    if not batch.is_crc_valid():
        raise InvalidReplicatedBatch(f"batch at offset {batch.base_offset} has a wrong checksum")
    if batch.record_count > batch.last_offset_delta + 1:
        raise InvalidReplicatedBatch(
            f"batch at offset {batch.base_offset} declares {batch.record_count} records for "
            f"{batch.last_offset_delta + 1} offsets"
        )
    compression = batch.compression  # raises CorruptBatch for an unknown codec
    if batch.is_control and batch.producer_id != NO_PRODUCER_ID:
        if compression is not Compression.NONE:
            raise InvalidReplicatedBatch(
                f"control batch at offset {batch.base_offset} is compressed ({compression.name})"
            )
        for record in batch.records():
            decode_marker(record.key, record.value)
