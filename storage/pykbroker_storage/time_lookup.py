"""Finds records by timestamp across the segments of a log."""

from collections.abc import Iterable
from typing import NamedTuple

from pykbroker_protocol.records.times import (
    Pause,
    max_timestamp_record,
    no_pause,
    offset_and_timestamp_at_or_after,
)
from pykbroker_storage.segment import NO_TIMESTAMP, Segment


class TimedOffset(NamedTuple):
    offset: int
    timestamp_ms: int
    leader_epoch: int


def first_at_or_after(
    segments: Iterable[Segment],
    timestamp_ms: int,
    log_start_offset: int,
    pause: Pause = no_pause,
) -> TimedOffset | None:
    """Returns the first record at or above the log start offset that is not older than a time."""
    for segment in segments:
        position = segment.position_of_timestamp(timestamp_ms, log_start_offset)
        while position < segment.size_bytes:
            batch = segment.batch_at(position)
            found = offset_and_timestamp_at_or_after(batch, timestamp_ms, log_start_offset, pause)
            if found is not None:
                return TimedOffset(*found, batch.partition_leader_epoch)
            position += batch.size_bytes
            pause()
    return None


def latest_record(
    segments: Iterable[Segment], log_start_offset: int, pause: Pause = no_pause
) -> TimedOffset | None:
    """Returns the first record with the largest timestamp at or above the log start offset."""
    latest: Segment | None = None
    for segment in segments:
        if segment.size_bytes and (
            latest is None or segment.largest_timestamp_ms > latest.largest_timestamp_ms
        ):
            latest = segment
    if latest is None or latest.max_timestamp_ms == NO_TIMESTAMP:
        return None
    batch = latest.batch_at(latest.position_of(latest.max_timestamp_offset))
    found = max_timestamp_record(batch, pause=pause)
    if found is None or found[0] < log_start_offset:
        return latest_not_deleted(segments, log_start_offset, pause)
    return TimedOffset(*found, batch.partition_leader_epoch)


def latest_not_deleted(
    segments: Iterable[Segment], log_start_offset: int, pause: Pause
) -> TimedOffset | None:
    """Scans all batches from the log start offset, because the newest record is below it."""
    latest: TimedOffset | None = None
    for segment in segments:
        if latest is not None and segment.largest_timestamp_ms <= latest.timestamp_ms:
            continue
        position = segment.position_of(log_start_offset)
        while position < segment.size_bytes:
            batch = segment.batch_at(position)
            if latest is None or batch.max_timestamp > latest.timestamp_ms:
                found = max_timestamp_record(batch, log_start_offset, pause)
                if found is not None and (latest is None or found[1] > latest.timestamp_ms):
                    latest = TimedOffset(*found, batch.partition_leader_epoch)
            position += batch.size_bytes
            pause()
    return latest
