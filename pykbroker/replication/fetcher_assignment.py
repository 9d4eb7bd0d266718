"""Assigns partitions to the fetchers of their leader."""

from __future__ import annotations

from typing import NamedTuple
from zlib import crc32


class FetcherId(NamedTuple):
    """One of the `num.replica.fetchers` fetchers that copy from one leader."""

    leader: int
    number: int


def fetcher_of(topic: str, index: int, *, leader: int, fetchers: int) -> FetcherId:
    """Spreads the partitions of a topic evenly, and equally after each start."""
    return FetcherId(leader, (crc32(topic.encode()) + index) % fetchers)
