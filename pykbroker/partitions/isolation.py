"""The visible end of a partition: per reader and isolation level."""

from __future__ import annotations

from enum import IntEnum
from typing import assert_never


class Isolation(IntEnum):
    """Kafka's isolation level, with its number in requests."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class Reader(IntEnum):
    """Consumers read up to the high watermark or last stable offset, followers the whole log."""

    CONSUMER = 0
    FOLLOWER = 1


def readable_end(
    reader: Reader,
    isolation: Isolation,
    *,
    last_stable_offset: int,
    high_watermark: int,
    log_end_offset: int,
) -> int:
    """Returns the offset before which records may be read."""
    match reader, isolation:
        case Reader.FOLLOWER, _:
            return log_end_offset
        case Reader.CONSUMER, Isolation.READ_UNCOMMITTED:
            return high_watermark
        case Reader.CONSUMER, Isolation.READ_COMMITTED:
            return min(last_stable_offset, high_watermark)
        case _:
            assert_never(reader)


def last_stable_offset(
    first_unstable_offset: int | None, *, log_start_offset: int, high_watermark: int
) -> int:
    """Last stable offset: no open transaction has records below it.

    DeleteRecords can remove the first records of an open transaction; the offset is then the log
    start offset.
    """
    if first_unstable_offset is None:
        return high_watermark
    return min(max(first_unstable_offset, log_start_offset), high_watermark)
