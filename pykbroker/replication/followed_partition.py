"""One partition in its fetcher: applies what the leader sent, and keeps the fetch state."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from pykbroker.partitions import follower
from pykbroker.replication.fetch_state import (
    TRANSIENT,
    FetchState,
    after_failure,
    after_success,
)
from pykbroker.replication.follower_session import Requested
from pykbroker.replication.truncation import (
    after_out_of_range,
    end_after_divergence,
    fetch_position,
)
from pykbroker.slices import next_turn
from pykbroker_storage.batch_preparation import InvalidReplicatedBatch

if TYPE_CHECKING:
    from pykbroker.clock import Clock
    from pykbroker.partitions.partition import Partition
    from pykbroker.replication.follower_session import PartitionKey
    from pykbroker_protocol.errors import ErrorCode
    from pykbroker_protocol.messages.fetch import PartitionData
    from pykbroker_storage.leader_epochs import EpochEnd

logger = logging.getLogger(__name__)


class LeadershipMoved(Exception):
    """The partition has another leader epoch, or it was deleted, while its fetcher waited."""


class OffsetRejected(Exception):
    """The leader does not accept an offset that it has."""


class FollowedPartition:
    """A partition that follows `leader` in one leader epoch."""

    def __init__(self, partition: Partition, leader: int, clock: Clock) -> None:
        self.partition = partition
        self.leader = leader
        self.clock = clock
        self.state = FetchState(leader_epoch=partition.leadership.leader_epoch)
        self.is_ended = False
        """True once its fetcher has dropped it."""

    @property
    def key(self) -> PartitionKey:
        return self.partition.topic_id, self.partition.index

    @property
    def is_current(self) -> bool:
        leadership = self.partition.leadership
        return (
            not self.is_ended
            and leadership.leader == self.leader
            and leadership.leader_epoch == self.state.leader_epoch
            and not self.partition.log.is_closed
        )

    def is_ready(self, now: float) -> bool:
        """Returns False while it is delayed, or has records that must be flushed first.

        The offset of a Fetch confirms all records before it (`flush.messages`).
        """
        log = self.partition.log
        must_flush = log.is_flush_due or log.flush_failure is not None
        return self.state.is_ready(now) and not must_flush

    def raise_if_moved(self) -> None:
        if not self.is_current:
            raise LeadershipMoved

    def requested(self, bytes_max: int) -> Requested:
        log = self.partition.log
        position = fetch_position(log.leader_epochs, log.log_end_offset)
        return Requested(
            self.state.leader_epoch,
            position.offset,
            position.last_fetched_epoch,
            log.log_start_offset,
            bytes_max,
        )

    def is_answer_to(self, requested: Requested) -> bool:
        """Returns False if the log or the leadership have changed since the request."""
        now = self.requested(requested.bytes_max)
        return self.is_current and now[:3] == requested[:3]

    async def apply(self, data: PartitionData) -> int:
        """Appends the records and applies the offsets of a response; returns the bytes appended.

        Raises LeadershipMoved, InvalidReplicatedBatch and OSError.
        """
        appended = await self._append(memoryview(data.records or b""))
        follower.follow_offsets(
            self.partition,
            high_watermark=data.high_watermark,
            log_start_offset=data.log_start_offset,
            now_ms=self.clock.now_ms(),
        )
        self._note_success(max(0, data.high_watermark - self.partition.log.log_end_offset))
        return appended

    async def _append(self, records: memoryview) -> int:
        appended = 0
        while appended < len(records):
            used = follower.append_slice(
                self.partition, records[appended:], self.state.leader_epoch, self.clock.now_ms()
            )
            if not used:
                break
            appended += used
            if appended < len(records):
                await next_turn()
                self.raise_if_moved()
        if len(records) and not appended:
            raise InvalidReplicatedBatch(f"response of {len(records)} bytes has no complete batch")
        return appended

    async def truncate_after_divergence(self, diverging: EpochEnd) -> None:
        await self._until_not_flushing()
        log = self.partition.log
        end = end_after_divergence(diverging, log.leader_epochs, log.log_end_offset)
        follower.truncate_to(self.partition, end, self.leader, self.clock.now_ms())

    async def adjust_offset(self, leader_start: int, leader_end: int) -> None:
        """Continues where the leader has records. Raises OffsetRejected."""
        await self._until_not_flushing()
        now_ms, end = self.clock.now_ms(), self.partition.log.log_end_offset
        found = after_out_of_range(leader_start, leader_end, end)
        if found.offset == end:
            raise OffsetRejected(
                f"leader has offsets {leader_start} to {leader_end}, but rejects offset {end}"
            )
        if found.is_new_log:
            follower.start_new_log_at(self.partition, found.offset, self.leader, now_ms)
        else:
            follower.truncate_to(self.partition, found.offset, self.leader, now_ms)

    async def _until_not_flushing(self) -> None:
        """A flush in a thread uses the files that a truncation changes."""
        await self.partition.flushing.until_idle()
        self.raise_if_moved()

    async def until_flushed(self) -> None:
        """Flushes what `flush.messages` requires before the next Fetch confirms it."""
        log = self.partition.log
        if log.is_flush_due and not log.is_closed:
            await self.partition.flushing.until_flushed(log.log_end_offset)

    # --- failures

    def note_failure(
        self,
        reason: str,
        *,
        backoff_seconds: float,
        error: ErrorCode | None = None,
        is_fenced: bool = False,
    ) -> None:
        """Delays the partition; logs the first failure of several."""
        failed = after_failure(
            self.state,
            now=self.clock.monotonic(),
            backoff_seconds=backoff_seconds,
            is_transient=error in TRANSIENT,
            is_fenced=is_fenced,
        )
        self.state = failed.state
        if failed.is_new:
            logger.warning(
                "%s: replication from leader %d stopped (%s); %s",
                self.partition,
                self.leader,
                reason,
                "waiting for new metadata"
                if is_fenced
                else f"retrying every {backoff_seconds:g} s",
            )

    def _note_success(self, lag: int) -> None:
        before = self.state
        self.state = after_success(before, lag)
        if before.is_reported:
            logger.info(
                "%s: replication from leader %d continues after %.0f s",
                self.partition,
                self.leader,
                self.clock.monotonic() - before.failing_since,
            )


def reason_of(error: Exception) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return str(error) or type(error).__name__


async def flush_all(partitions: list[FollowedPartition], backoff_seconds: float) -> None:
    """Flushes partitions concurrently; a failed one is delayed."""
    outcomes = await asyncio.gather(
        *(it.until_flushed() for it in partitions), return_exceptions=True
    )
    for followed, outcome in zip(partitions, outcomes, strict=True):
        if isinstance(outcome, OSError):
            followed.note_failure(reason_of(outcome), backoff_seconds=backoff_seconds)
        elif isinstance(outcome, BaseException):
            raise outcome
