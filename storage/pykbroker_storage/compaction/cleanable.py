"""Finds the part of a log that compaction may clean, and whether cleaning is worthwhile."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from pykbroker_protocol.late_dataclass import dataclass
from pykbroker_storage.configuration import LogConfiguration


class SealedSegment(Protocol):
    """A sealed segment. Reading its timestamps may read the disk."""

    @property
    def base_offset(self) -> int: ...
    @property
    def next_offset(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def first_timestamp_ms(self) -> int: ...
    @property
    def largest_timestamp_ms(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleanable:
    """Keys are unique below `first_dirty_offset`; segments from `end_offset` on are not touched."""

    first_dirty_offset: int
    end_offset: int
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool  # a dirty record is older than `max.compaction.lag.ms`

    @property
    def dirty_ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    def is_worthwhile(self, min_dirty_ratio: float) -> bool:
        return (self.is_overdue and self.dirty_bytes > 0) or self.dirty_ratio > min_dirty_ratio


def find_cleanable(
    sealed: Sequence[SealedSegment],
    configuration: LogConfiguration,
    *,
    first_dirty_offset: int,
    log_start_offset: int,
    log_end_offset: int,
    last_stable_offset: int,
    now_ms: int,
) -> Cleanable:
    """Returns the cleanable part; `sealed` are all segments except the active one."""
    if not log_start_offset <= first_dirty_offset <= log_end_offset:
        first_dirty_offset = log_start_offset
    dirty = [segment for segment in sealed if segment.next_offset > first_dirty_offset]
    end_offset = _end_of_cleanable(
        dirty, last_stable_offset, now_ms - configuration.min_compaction_lag_ms, configuration
    )
    clean = [segment for segment in sealed if segment.base_offset < first_dirty_offset]
    return Cleanable(
        first_dirty_offset=first_dirty_offset,
        end_offset=max(end_offset, first_dirty_offset),
        clean_bytes=_size_of(clean),
        dirty_bytes=_size_of(it for it in dirty if it.next_offset <= end_offset),
        is_overdue=_is_overdue(dirty, now_ms - configuration.max_compaction_lag_ms),
    )


def _end_of_cleanable(
    dirty: Sequence[SealedSegment],
    last_stable_offset: int,
    young_since_ms: int,
    configuration: LogConfiguration,
) -> int:
    end_offset = 0
    for segment in dirty:
        if segment.next_offset > last_stable_offset:
            break
        if configuration.min_compaction_lag_ms and segment.largest_timestamp_ms > young_since_ms:
            break
        end_offset = segment.next_offset
    return end_offset


def _is_overdue(dirty: Sequence[SealedSegment], old_before_ms: int) -> bool:
    """Returns whether a segment is too old; timestamps <= 0 and a disabled limit are ignored."""
    return old_before_ms > 0 and any(0 < it.first_timestamp_ms < old_before_ms for it in dirty)


def _size_of(segments: Iterable[SealedSegment]) -> int:
    return sum(segment.size_bytes for segment in segments)
