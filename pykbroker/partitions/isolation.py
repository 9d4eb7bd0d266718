"""How far into a partition a reader may see."""

from __future__ import annotations

from enum import IntEnum
from typing import assert_never


class Isolation(IntEnum):
    """What a consumer wants to see of transactions; the number is what travels."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class Reader(IntEnum):
    """A consumer sees what is safe; a follower copies all there is."""

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
    """The offset before which records may be handed out."""
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
    """Everything before it is decided: no open transaction has written there.

    What an open transaction has written may have been deleted, but not the transaction.
    """
    if first_unstable_offset is None:
        return high_watermark
    return min(max(first_unstable_offset, log_start_offset), high_watermark)
