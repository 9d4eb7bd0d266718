"""Requests that wait for a partition to change; Kafka calls this purgatory.

A wait is a future and a condition that only comes nearer. A partition completes its waits when it
changes; nothing polls. A wait that no change completes ends at its deadline on the broker's clock.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from pykbroker.partitions.isolation import Isolation, Reader
from pykbroker_protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pykbroker.clock import Clock


class WaitingRequests:
    """The requests that wait for one partition."""

    __slots__ = ("commits", "fetches", "follower_fetches")

    def __init__(self) -> None:
        self.fetches: dict[FetchWait, None] = {}
        """Consumers, in the order of their arrival."""
        self.follower_fetches: dict[FetchWait, None] = {}
        self.commits: list[CommitWait] = []

    def bytes_arrived(self, *, committed: int, stable: int) -> None:
        """Counts bytes below the high watermark and below the last stable offset."""
        for fetch in tuple(self.fetches):
            is_read_committed = fetch.isolation is Isolation.READ_COMMITTED
            fetch.bytes_arrived(stable if is_read_committed else committed)

    def bytes_appended(self, byte_count: int) -> None:
        """Counts bytes that followers can read: they do not wait for the high watermark."""
        for fetch in tuple(self.follower_fetches):
            fetch.bytes_arrived(byte_count)

    def complete_fetches(self) -> None:
        """Completes waiting fetches, which read again, after a change other than new bytes."""
        for fetch in (*self.fetches, *self.follower_fetches):
            fetch.complete()

    def complete_commits(self, high_watermark: int, outcome: ErrorCode) -> None:
        self.commits[:] = [it for it in self.commits if not it.complete_at(high_watermark, outcome)]

    def fail_commits(self, code: ErrorCode) -> None:
        for commit in self.commits:
            commit.complete(code)
        self.commits.clear()


class ReplicaState(Protocol):
    """The part of a partition that its waits read."""

    high_watermark: int
    waiting: WaitingRequests

    @property
    def leads(self) -> bool: ...
    @property
    def outcome_of_commit(self) -> ErrorCode: ...


class FetchWait:
    """A fetch that waits for a number of new bytes, or for any other change."""

    __slots__ = ("bytes_missing", "done", "isolation")

    def __init__(
        self, bytes_missing: int, isolation: Isolation, done: asyncio.Future[None]
    ) -> None:
        self.bytes_missing = bytes_missing
        self.isolation = isolation
        self.done = done

    def bytes_arrived(self, byte_count: int) -> None:
        self.bytes_missing -= byte_count
        if self.bytes_missing <= 0:
            self.complete()

    def complete(self) -> None:
        if not self.done.done():
            self.done.set_result(None)


async def wait_for_bytes(
    partitions: Iterable[ReplicaState],
    bytes_missing: int,
    seconds_max: float,
    *,
    clock: Clock,
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
    reader: Reader = Reader.CONSUMER,
) -> None:
    """Returns once the bytes are readable, a partition has changed otherwise, or time is up."""
    wait = FetchWait(bytes_missing, isolation, asyncio.get_running_loop().create_future())
    is_consumer = reader is Reader.CONSUMER
    waiting_at = [
        it.waiting.fetches if is_consumer else it.waiting.follower_fetches for it in partitions
    ]
    for waits in waiting_at:
        waits[wait] = None
    timer = clock.expire_later(seconds_max, wait.complete)
    try:
        await wait.done
    finally:
        timer.cancel()
        for waits in waiting_at:
            waits.pop(wait, None)


class CommitWait:
    """An append with acks=all that waits until the high watermark has passed its records."""

    __slots__ = ("done", "offset")

    def __init__(self, offset: int, done: asyncio.Future[ErrorCode]) -> None:
        self.offset = offset
        self.done = done

    def complete_at(self, high_watermark: int, outcome: ErrorCode) -> bool:
        if high_watermark < self.offset:
            return False
        self.complete(outcome)
        return True

    def complete(self, code: ErrorCode) -> None:
        if not self.done.done():
            self.done.set_result(code)


async def wait_for_commit(
    partition: ReplicaState, offset: int, seconds_max: float, *, clock: Clock
) -> ErrorCode:
    """Waits until the high watermark has reached an offset.

    Returns REQUEST_TIMED_OUT when time is up, NOT_LEADER_OR_FOLLOWER as soon as another broker
    leads, UNKNOWN_TOPIC_OR_PARTITION as soon as the partition is deleted, and
    NOT_ENOUGH_REPLICAS_AFTER_APPEND if the in-sync set has become too small.
    """
    if not partition.leads:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if partition.high_watermark >= offset:
        return partition.outcome_of_commit
    wait = CommitWait(offset, asyncio.get_running_loop().create_future())
    partition.waiting.commits.append(wait)
    timer = clock.expire_later(seconds_max, wait.complete, ErrorCode.REQUEST_TIMED_OUT)
    try:
        return await wait.done
    finally:
        timer.cancel()
        if wait in partition.waiting.commits:
            partition.waiting.commits.remove(wait)
