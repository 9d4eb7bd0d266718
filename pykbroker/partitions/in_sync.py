"""High watermark and admission of appends, derived from the in-sync replicas.

The in-sync replicas have all committed records. A record is committed once each of them has it.
Consumers see only committed records, which a change of leadership cannot truncate.
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
    """Returns the smallest log end offset of the in-sync replicas; never less than `current`.

    With fewer in-sync replicas than `min.insync.replicas` it does not advance (KIP-966), because
    so few replicas can be lost together.
    """
    if len(in_sync) < min_in_sync:
        return current
    reached = min([end_offsets.get(replica, -1) for replica in in_sync])
    return max(current, reached)


def may_write_to_all(in_sync: Collection[int], min_in_sync: int) -> bool:
    """Returns True if the in-sync set is large enough for acks=all."""
    return len(in_sync) >= min_in_sync
