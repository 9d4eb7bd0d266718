"""Requests that wait for a partition to change: Kafka calls this purgatory.

A wait is a future and a condition that only ever comes nearer. Partitions tell their waits what
happened; nobody polls. A deadline ends a wait that nothing else has ended.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from pykbroker.partitions.isolation import Isolation

if TYPE_CHECKING:
    from collections.abc import Iterable


class Awaited(Protocol):
    """What a partition shows of itself to those who wait for it."""

    high_watermark: int
    bytes_awaited: dict[BytesAwaited, None]  # in the order in which they came
    commits_awaited: list[CommitAwaited]


class BytesAwaited:
    """A fetch that wants so many new bytes, or anything that makes it worth reading again."""

    __slots__ = ("bytes_missing", "done", "isolation")

    def __init__(
        self, bytes_missing: int, isolation: Isolation, done: asyncio.Future[None]
    ) -> None:
        self.bytes_missing = bytes_missing
        self.isolation = isolation
        self.done = done

    def arrived(self, byte_count: int) -> None:
        self.bytes_missing -= byte_count
        if self.bytes_missing <= 0:
            self.wake()

    def wake(self) -> None:
        if not self.done.done():
            self.done.set_result(None)


async def until_bytes(
    partitions: Iterable[Awaited],
    bytes_missing: int,
    deadline_seconds: float,
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
) -> None:
    """Wait until so many bytes have become readable, a partition changes, or time is up."""
    loop = asyncio.get_running_loop()
    awaited = BytesAwaited(bytes_missing, isolation, loop.create_future())
    waiting_at = tuple(partitions)
    for partition in waiting_at:
        partition.bytes_awaited[awaited] = None
    timer = loop.call_later(deadline_seconds, awaited.wake)
    try:
        await awaited.done
    finally:
        timer.cancel()
        for partition in waiting_at:
            partition.bytes_awaited.pop(awaited, None)


class CommitAwaited:
    """A produce with acks=all that wants every in-sync replica to have an offset."""

    __slots__ = ("done", "offset")

    def __init__(self, offset: int, done: asyncio.Future[None]) -> None:
        self.offset = offset
        self.done = done

    def committed(self, high_watermark: int) -> bool:
        if high_watermark < self.offset:
            return False
        if not self.done.done():
            self.done.set_result(None)
        return True


async def until_committed(partition: Awaited, offset: int, deadline_seconds: float) -> bool:
    """Wait until the high watermark has reached an offset; False when time is up before."""
    if partition.high_watermark >= offset:
        return True
    awaited = CommitAwaited(offset, asyncio.get_running_loop().create_future())
    partition.commits_awaited.append(awaited)
    try:
        async with asyncio.timeout(deadline_seconds):
            await awaited.done
    except TimeoutError:
        return False
    finally:
        if awaited in partition.commits_awaited:
            partition.commits_awaited.remove(awaited)
    return True
