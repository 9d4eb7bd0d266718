"""What the in-sync set decides: how far records are committed, and whether writes are safe.

The set holds the replicas that have all committed records. A record is committed once every one of
them has it; only committed records are shown to consumers, so none of them is ever taken back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


def advanced_high_watermark(
    current: int,
    *,
    in_sync: Collection[int],
    end_offsets: Mapping[int, int],
    min_in_sync: int,
) -> int:
    """The smallest log end within the in-sync set; it never goes back.

    It stands still while the set is smaller than `min.insync.replicas` (KIP-966): what so few
    replicas hold must not be shown, because they could be lost together.
    """
    if len(in_sync) < min_in_sync:
        return current
    reached = min([end_offsets.get(replica, -1) for replica in in_sync])
    return max(current, reached)


def may_write_to_all(in_sync: Collection[int], min_in_sync: int) -> bool:
    """Whether a producer with acks=all gets the safety it asked for."""
    return len(in_sync) >= min_in_sync
