"""The follower side of a partition: appends and truncations as its leader requires.

All methods run on the event loop. Each is called only while the partition follows the leader that
sent the records: the caller checks this again after every await.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pykbroker_protocol.records.batch import RecordBatch
from pykbroker_protocol.records.corrupt import CorruptBatch

if TYPE_CHECKING:
    from pykbroker.partitions.partition import Partition

logger = logging.getLogger(__name__)

BATCHES_PER_SLICE = 64
"""Validating and appending this many small batches takes about a millisecond."""


def append_slice(partition: Partition, records: memoryview, leader_epoch: int, now_ms: int) -> int:
    """Appends the next batches of a Fetch response; returns their bytes.

    Returns 0 if the rest cannot be appended. Raises InvalidReplicatedBatch and OSError; the log is
    unchanged then.
    """
    log = partition.log
    if log.log_end_offset == log.log_start_offset and not log.size_bytes:
        start_at_batch(partition, records, now_ms)
    return log.append_replicated_slice(
        records, leader_epoch=leader_epoch, batches_max=BATCHES_PER_SLICE, now_ms=now_ms
    )


def start_at_batch(partition: Partition, records: memoryview, now_ms: int) -> None:
    """Moves the start of an empty log down to that of the first batch, if this contains it.

    DeleteRecords can set the log start offset of a leader to an offset within a batch.
    """
    log = partition.log
    try:
        first = RecordBatch.parse(records)
    except CorruptBatch:
        return  # the append reports it
    if 0 <= first.base_offset < log.log_end_offset <= first.last_offset:
        try:
            log.truncate_fully_and_start_at(first.base_offset, now_ms)
        finally:
            partition.follow_truncation()


def follow_offsets(
    partition: Partition, *, high_watermark: int, log_start_offset: int, now_ms: int
) -> None:
    """Applies the high watermark and the log start offset of the leader.

    The high watermark does not go back to that of a new leader, which knows less at first: the
    records below it are committed.
    """
    log = partition.log
    committed = min(high_watermark, log.log_end_offset)
    if committed > partition.high_watermark:
        partition.set_high_watermark(committed)
    start = min(log_start_offset, partition.high_watermark)
    if start > log.log_start_offset:
        log.advance_log_start(start, now_ms)


def truncate_to(partition: Partition, offset: int, leader: int, now_ms: int) -> None:
    """Removes the records and epochs at `offset` or above, which the leader does not have."""
    log = partition.log
    if offset >= log.log_end_offset:
        log.truncate_to(offset, now_ms)
        return
    before, high_watermark = log.log_end_offset, partition.high_watermark
    try:
        log.truncate_to(offset, now_ms)
    finally:
        partition.follow_truncation()
    logger.log(
        logging.WARNING if log.log_end_offset < high_watermark else logging.INFO,
        "%s: truncated from offset %d to %d, where it diverges from leader %d%s",
        partition,
        before,
        log.log_end_offset,
        leader,
        f", below the high watermark {high_watermark}: an unclean election lost records"
        if log.log_end_offset < high_watermark
        else "",
    )


def start_new_log_at(partition: Partition, offset: int, leader: int, now_ms: int) -> None:
    """Deletes all records, which are older than the first record of the leader."""
    before = partition.log.log_end_offset
    try:
        partition.log.truncate_fully_and_start_at(offset, now_ms)
    finally:
        partition.follow_truncation()
    logger.warning(
        "%s: log ends at offset %d, before the log start offset %d of leader %d; "
        "its records are deleted and it continues there",
        partition,
        before,
        offset,
        leader,
    )
