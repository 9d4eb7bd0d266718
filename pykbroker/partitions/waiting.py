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


class FollowerWatch(Protocol):
    """The session of a follower, as one of its partitions uses it."""

    def appended(self, byte_count: int) -> None: ...
    def change(self) -> None: ...
    def interrupt(self) -> None: ...


class WaitingRequests:
    """The requests that wait for one partition."""

    __slots__ = ("commits", "deletions", "fetches", "follower_fetches", "watches")

    def __init__(self) -> None:
        self.fetches: dict[FetchWait, None] = {}
        """Consumers, in the order of their arrival."""
        self.follower_fetches: dict[FetchWait, None] = {}
        """Followers without a session."""
        self.watches: dict[int, FollowerWatch] = {}
        """Sessions of followers, by broker id."""
        self.commits: list[CommitWait] = []
        self.deletions: list[CommitWait] = []
        """DeleteRecords that wait for the log start offsets of followers."""

    def bytes_arrived(self, *, committed: int, stable: int) -> None:
        """Counts bytes below the high watermark and below the last stable offset."""
        for fetch in tuple(self.fetches):
            is_read_committed = fetch.isolation is Isolation.READ_COMMITTED
            fetch.bytes_arrived(stable if is_read_committed else committed)

    def bytes_appended(self, byte_count: int) -> None:
        """Counts bytes that followers can read: they do not wait for the high watermark."""
        for fetch in tuple(self.follower_fetches):
            fetch.bytes_arrived(byte_count)
        for watch in self.watches.values():
            watch.appended(byte_count)

    def offsets_changed(self) -> None:
        """Reports changes to the sessions of followers, which their next responses contain."""
        for watch in self.watches.values():
            watch.change()

    def complete_fetches(self) -> None:
        """Completes waiting fetches, which read again, after a change other than new bytes."""
        for fetch in (*self.fetches, *self.follower_fetches):
            fetch.complete()
        for watch in self.watches.values():
            watch.interrupt()

    def complete_commits(self, high_watermark: int, outcome: ErrorCode) -> None:
        self.commits[:] = [it for it in self.commits if not it.complete_at(high_watermark, outcome)]

    def complete_deletions(self, low_watermark: int) -> None:
        self.deletions[:] = [
            it for it in self.deletions if not it.complete_at(low_watermark, ErrorCode.NONE)
        ]

    def fail_commits(self, code: ErrorCode) -> None:
        """Completes waits for followers with an error, because they no longer fetch from here."""
        for wait in (*self.commits, *self.deletions):
            wait.complete(code)
        self.commits.clear()
        self.deletions.clear()


class ReplicaState(Protocol):
    """The part of a partition that its waits read."""

    high_watermark: int
    waiting: WaitingRequests

    @property
    def leads(self) -> bool: ...
    @property
    def outcome_of_commit(self) -> ErrorCode: ...
    @property
    def low_watermark(self) -> int: ...


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
    """A request that waits until a watermark of all replicas reaches an offset."""

    __slots__ = ("done", "offset")

    def __init__(self, offset: int, done: asyncio.Future[ErrorCode]) -> None:
        self.offset = offset
        self.done = done

    def complete_at(self, watermark: int, outcome: ErrorCode) -> bool:
        if watermark < self.offset:
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
    return await wait_in(partition.waiting.commits, offset, seconds_max, clock=clock)


async def wait_for_deletion(
    partition: ReplicaState, offset: int, seconds_max: float, *, clock: Clock
) -> ErrorCode:
    """Waits until the low watermark has reached an offset; returns errors as `wait_for_commit`."""
    if not partition.leads:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if partition.low_watermark >= offset:
        return ErrorCode.NONE
    return await wait_in(partition.waiting.deletions, offset, seconds_max, clock=clock)


async def wait_in(
    waits: list[CommitWait], offset: int, seconds_max: float, *, clock: Clock
) -> ErrorCode:
    wait = CommitWait(offset, asyncio.get_running_loop().create_future())
    waits.append(wait)
    timer = clock.expire_later(seconds_max, wait.complete, ErrorCode.REQUEST_TIMED_OUT)
    try:
        return await wait.done
    finally:
        timer.cancel()
        if wait in waits:
            waits.remove(wait)
