"""Versions of the requests of followers, which the finalized `metadata.version` determines.

Followers do not negotiate them with the leader, so that an upgrade switches all brokers at once.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

OLDEST: Final = 0

# From this level of metadata.version on: version.
FETCH_VERSIONS: Final = (
    (OLDEST, 13),
    (9, 14),  # 3.5-IV0
    (10, 15),  # 3.5-IV1: replica_state with the broker epoch
    (19, 16),  # 3.7-IV4
    (21, 17),  # 3.9-IV0
    (27, 18),  # 4.1-IV1
)
LIST_OFFSETS_VERSIONS: Final = (
    (OLDEST, 7),
    (9, 8),  # 3.5-IV0
    (21, 9),  # 3.9-IV0
    (25, 10),  # 4.0-IV3
    (29, 11),  # 4.2-IV1
)

REPLICA_STATE_SINCE: Final = 15


def fetch_version(metadata_version: int) -> int:
    return _version(FETCH_VERSIONS, metadata_version)


def list_offsets_version(metadata_version: int) -> int:
    return _version(LIST_OFFSETS_VERSIONS, metadata_version)


def _version(rows: tuple[tuple[int, int], ...], level: int) -> int:
    found = bisect_right(rows, level, key=lambda row: row[0]) - 1
    return rows[max(0, found)][1]
