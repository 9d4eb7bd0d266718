"""Finds records by their timestamps, across the segments of a log."""

from collections.abc import Iterable
from typing import NamedTuple

from pykbroker_protocol.records.contents import (
    max_timestamp_record,
    offset_and_timestamp_at_or_after,
)
from pykbroker_storage.segment import NO_TIMESTAMP, Segment


class TimedOffset(NamedTuple):
    offset: int
    timestamp_ms: int
    leader_epoch: int


def first_at_or_after(
    segments: Iterable[Segment], timestamp_ms: int, log_start_offset: int
) -> TimedOffset | None:
    """The first record from the log's start on that is not older than the time."""
    for segment in segments:
        position = segment.position_of_timestamp(timestamp_ms, log_start_offset)
        while position < segment.size_bytes:
            batch = segment.batch_at(position)
            found = offset_and_timestamp_at_or_after(batch, timestamp_ms)
            if found is not None and found[0] >= log_start_offset:
                return TimedOffset(*found, batch.partition_leader_epoch)
            position += batch.size_bytes
    return None


def latest_record(segments: Iterable[Segment], log_start_offset: int) -> TimedOffset | None:
    """The first record with the largest timestamp of all."""
    latest: Segment | None = None
    for segment in segments:
        if segment.size_bytes and (
            latest is None or segment.largest_timestamp_ms > latest.largest_timestamp_ms
        ):
            latest = segment
    if latest is None or latest.max_timestamp_ms == NO_TIMESTAMP:
        return None
    offset = max(latest.max_timestamp_offset, log_start_offset)
    batch = latest.batch_at(latest.position_of(offset))
    found = max_timestamp_record(batch)
    return TimedOffset(*found, batch.partition_leader_epoch) if found else None
