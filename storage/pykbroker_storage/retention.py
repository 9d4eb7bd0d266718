"""Decides how many of the oldest segments retention deletes."""

from collections.abc import Sequence
from typing import NamedTuple

from pykbroker_storage.configuration import UNLIMITED, LogConfiguration


class SegmentAge(NamedTuple):
    next_offset: int
    size_bytes: int
    largest_timestamp_ms: int


def count_expired(
    segments: Sequence[SegmentAge],
    configuration: LogConfiguration,
    *,
    log_start_offset: int,
    now_ms: int,
) -> int:
    """Returns how many of the oldest segments have expired.

    The last segment is the active one; it counts only if it is not empty.
    """
    if segments and not segments[-1].size_bytes:
        segments = segments[:-1]
    return max(
        _count_below_start(segments, log_start_offset),
        _count_too_old(segments, configuration.retention_ms, now_ms),
        _count_too_many(segments, configuration.retention_bytes),
    )


def _count_below_start(segments: Sequence[SegmentAge], log_start_offset: int) -> int:
    count = 0
    for segment in segments:
        if segment.next_offset > log_start_offset:
            break
        count += 1
    return count


def _count_too_old(segments: Sequence[SegmentAge], retention_ms: int, now_ms: int) -> int:
    if retention_ms == UNLIMITED:
        return 0
    count = 0
    for segment in segments:
        if now_ms - segment.largest_timestamp_ms <= retention_ms:
            break
        count += 1
    return count


def _count_too_many(segments: Sequence[SegmentAge], retention_bytes: int) -> int:
    """Counts segments whose deletion leaves at least `retention_bytes`."""
    if retention_bytes == UNLIMITED:
        return 0
    excess = sum(segment.size_bytes for segment in segments) - retention_bytes
    count = 0
    for segment in segments:
        excess -= segment.size_bytes
        if excess < 0:
            break
        count += 1
    return count
