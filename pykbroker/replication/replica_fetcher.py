"""Copies records of many partitions from one leader: Fetch, append, Fetch again.

A fetcher has one request in flight. An error of one partition delays only this partition; an error
of the connection or of the whole request delays all.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Final

from pykbroker.client.errors import ClientError, error_of
from pykbroker.replication.fetch_state import Reaction, reaction_to
from pykbroker.replication.followed_partition import (
    FollowedPartition,
    LeadershipMoved,
    OffsetRejected,
    flush_all,
    reason_of,
)
from pykbroker.replication.follower_session import FollowerSession
from pykbroker.replication.leader_connection import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    Asked,
    LeaderConnection,
)
from pykbroker.slices import next_turn
from pykbroker_protocol.errors import ErrorCode
from pykbroker_storage.batch_preparation import InvalidReplicatedBatch
from pykbroker_storage.leader_epochs import EpochEnd

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from pykbroker.client.connection_options import ConnectionOptions
    from pykbroker.clock import Clock
    from pykbroker.partitions.partition import Partition
    from pykbroker.replication.cluster_view import ClusterView
    from pykbroker.replication.fetcher_assignment import FetcherId
    from pykbroker.replication.follower_session import PartitionKey
    from pykbroker.replication.throttle import FollowerThrottle
    from pykbroker_protocol.messages.fetch import FetchResponse, PartitionData

logger = logging.getLogger(__name__)

SESSION_ERRORS: Final = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)
"""The next request begins a new session at once."""

REFRESH_SECONDS: Final = 5.0
"""Interval in which log start offsets that retention has changed are sent to the leader."""
PARTITIONS_PER_SLICE: Final = 256


class ReplicaFetcher:
    """Bounded by the partitions of this broker that one leader leads."""

    def __init__(
        self,
        fetcher_id: FetcherId,
        cluster: ClusterView,
        options: ConnectionOptions,
        throttle: FollowerThrottle,
        save_offsets: Callable[[Sequence[Partition]], Awaitable[None]],
    ) -> None:
        """`save_offsets` writes the offset checkpoints after truncations of partitions."""
        self.id = fetcher_id
        self._cluster = cluster
        self._clock: Clock = options.clock
        self._throttle = throttle
        self._save_offsets = save_offsets
        self._leader = LeaderConnection(fetcher_id.leader, cluster, options)
        self._session = FollowerSession()
        self._followed: dict[PartitionKey, FollowedPartition] = {}
        self._touched: dict[PartitionKey, None] = {}
        """Partitions whose entry in the next request may differ."""
        self._waiting: dict[PartitionKey, None] = {}
        """Partitions that are delayed or throttled."""
        self._refreshed_at = self._clock.monotonic()
        self._unsaved: list[Partition] = []
        """Partitions whose truncation is not in the offset checkpoints yet."""
        self._failing_since: float | None = None
        self._changed = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run())

    def __str__(self) -> str:
        return f"replication from broker {self.id.leader} (fetcher {self.id.number})"

    # --- partitions

    def follow(self, partition: Partition) -> None:
        """Begins to fetch a partition, or begins again in a later leader epoch."""
        key = partition.topic_id, partition.index
        known = self._followed.get(key)
        if known is not None:
            if known.partition is partition and known.is_current:
                return
            known.is_ended = True
        self._followed[key] = FollowedPartition(partition, self.id.leader, self._clock)
        self._touched[key] = None
        self._changed.set()

    def unfollow(self, key: PartitionKey) -> None:
        followed = self._followed.pop(key, None)
        if followed is not None:
            followed.is_ended = True
            self._touched[key] = None
            self._waiting.pop(key, None)
            self._changed.set()

    @property
    def is_empty(self) -> bool:
        return not self._followed

    @property
    def followed(self) -> list[FollowedPartition]:
        return list(self._followed.values())

    async def close(self) -> None:
        """Ends the request in flight, too: a leader that was lost may never answer it."""
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    # --- the loop

    async def _run(self) -> None:
        try:
            while True:
                try:
                    await self._fetch_once()
                except ClientError as error:
                    self._session.after_failure()
                    await self._pause_after(str(error))
                except Exception as error:
                    logger.exception("%s: internal error; retrying", self)
                    self._session.after_failure()
                    await self._pause_after(reason_of(error))
        finally:
            await self._leader.close()

    async def _fetch_once(self) -> None:
        await self._save_truncated()
        await self._prepare_request()
        if not len(self._session):
            await self._until_changed(self._seconds_until_ready())
            return
        response = await self._leader.fetch(self._session.next_request())
        if response.error_code:
            error = error_of(response.error_code)
            self._session.after_error(error)
            if error not in SESSION_ERRORS:
                await self._pause_after(error.name)
            return
        if self._failing_since is not None:
            seconds = self._clock.monotonic() - self._failing_since
            self._failing_since = None
            logger.info("%s: continues after %.0f s", self, seconds)
        self._session.after_response(response.session_id)
        await self._process(response)

    @property
    def _backoff_seconds(self) -> float:
        return self._cluster.settings.replica_fetch_backoff_ms / 1000

    def _seconds_until_ready(self) -> float:
        """Returns the time until the first delayed partition is retried."""
        now = self._clock.monotonic()
        times = (self._followed[it].state.delayed_until for it in self._waiting)
        first = min((it for it in times if it > now), default=inf)
        return min(first - now, self._backoff_seconds)

    async def _pause_after(self, reason: str) -> None:
        """Waits before the next request; logs the first failure of several."""
        seconds = self._backoff_seconds
        if self._failing_since is None:
            self._failing_since = self._clock.monotonic()
            logger.warning(
                "%s: failed (%s); partitions that are not copied: %d; retrying every %g s",
                self,
                reason,
                len(self._followed),
                seconds,
            )
        await self._clock.sleep(seconds)

    async def _until_changed(self, seconds: float) -> None:
        alarm = self._clock.call_later(seconds, self._changed.set)
        try:
            await self._changed.wait()
        finally:
            alarm.cancel()

    # --- requests

    async def _prepare_request(self) -> None:
        """Brings the session up to date for all partitions that may have changed."""
        self._changed.clear()
        now = self._clock.monotonic()
        if now - self._refreshed_at >= REFRESH_SECONDS:
            self._refreshed_at = now
            self._touched.update(dict.fromkeys(self._followed))
        self._touched.update(self._waiting)
        touched, self._touched = self._touched, {}
        for count, key in enumerate(touched):
            self._update_session(key, now)
            if count % PARTITIONS_PER_SLICE == PARTITIONS_PER_SLICE - 1:
                await next_turn()

    def _update_session(self, key: PartitionKey, now: float) -> None:
        followed = self._followed.get(key)
        self._waiting.pop(key, None)
        if followed is None or not followed.is_current:
            self._session.discard(key)
        elif not followed.is_ready(now) or self._throttle.holds_back(followed):
            self._session.discard(key)
            self._waiting[key] = None
        else:
            requested = followed.requested(self._cluster.settings.replica_fetch_max_bytes)
            self._session.set(key, requested)
            if self._throttle.applies_to(followed.partition):
                self._waiting[key] = None  # the next request may exclude it

    # --- responses

    async def _process(self, response: FetchResponse) -> None:
        after = AfterResponse()
        count = 0
        for topic in response.responses:
            for data in topic.partitions:
                count += 1
                if count % PARTITIONS_PER_SLICE == 0:
                    await next_turn()
                followed = self._answered((topic.topic_id, data.partition_index))
                if followed is not None:
                    with self._errors_of(followed):
                        await self._handle(followed, data, after)
        try:
            if after.to_adjust:
                await self._adjust_offsets(after)
        finally:
            self._unsaved.extend(after.truncated)
            if after.to_flush:
                await flush_all(after.to_flush, self._backoff_seconds)
            await self._save_truncated()

    async def _save_truncated(self) -> None:
        """Writes the checkpoints; after a disk error, again before the next Fetch."""
        if self._unsaved:
            await self._save_offsets(self._unsaved)
            self._unsaved = []

    async def _handle(
        self, followed: FollowedPartition, data: PartitionData, after: AfterResponse
    ) -> None:
        if data.error_code:
            if self._note_error(followed, error_of(data.error_code)):
                after.to_adjust.append(followed)
        elif data.diverging_epoch.epoch >= 0:
            diverging = EpochEnd(data.diverging_epoch.epoch, data.diverging_epoch.end_offset)
            after.truncated.append(followed.partition)
            await followed.truncate_after_divergence(diverging)
        else:
            appended = await followed.apply(data)
            if appended:
                self._throttle.record(followed.partition, appended)
            if followed.partition.log.is_flush_due:
                after.to_flush.append(followed)

    def _answered(self, key: PartitionKey) -> FollowedPartition | None:
        """Returns the partition if its log and leadership are those of the request."""
        self._touched[key] = None
        followed, requested = self._followed.get(key), self._session.requested(key)
        if followed is None or requested is None or not followed.is_answer_to(requested):
            return None
        return followed

    def _errors_of(self, followed: FollowedPartition) -> PartitionErrors:
        return PartitionErrors(followed, self._backoff_seconds)

    def _note_error(self, followed: FollowedPartition, error: ErrorCode) -> bool:
        """Delays the partition; returns True if the offsets of the leader are needed instead."""
        epoch = followed.state.leader_epoch
        reaction = reaction_to(error, requested_epoch=epoch, current_epoch=epoch)
        if reaction is Reaction.ADJUST_OFFSET:
            return True
        followed.note_failure(
            error.name,
            backoff_seconds=self._backoff_seconds,
            error=error,
            is_fenced=reaction is Reaction.AWAIT_METADATA,
        )
        return False

    async def _adjust_offsets(self, after: AfterResponse) -> None:
        """Continues partitions whose fetch offset the leader does not have."""
        asked = [
            Asked(it.partition.topic, it.partition.index, it.state.leader_epoch)
            for it in after.to_adjust
        ]
        ends = await self._leader.offsets(asked, LATEST_TIMESTAMP)
        starts = await self._leader.offsets(asked, EARLIEST_TIMESTAMP)
        for followed in after.to_adjust:
            name = followed.partition.topic, followed.partition.index
            start, end = starts[name], ends[name]
            if not followed.is_current:
                continue
            if isinstance(end, ErrorCode):
                self._note_error(followed, end)
            elif isinstance(start, ErrorCode):
                self._note_error(followed, start)
            else:
                after.truncated.append(followed.partition)
                with self._errors_of(followed):
                    await followed.adjust_offset(start, end)


class AfterResponse:
    """Work that follows a response, for several partitions together."""

    def __init__(self) -> None:
        self.to_adjust: list[FollowedPartition] = []
        self.to_flush: list[FollowedPartition] = []
        self.truncated: list[Partition] = []


class PartitionErrors:
    """Turns exceptions of one partition into a delay, so that the others are not affected."""

    def __init__(self, followed: FollowedPartition, backoff_seconds: float) -> None:
        self._followed = followed
        self._backoff_seconds = backoff_seconds

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> bool:
        match error:
            case None:
                return False
            case LeadershipMoved():
                return True
            case ClientError() | asyncio.CancelledError():
                return False
            case InvalidReplicatedBatch() | OffsetRejected() | OSError():
                partition = self._followed.partition
                partition.leader.context.health.note(partition, error)
                reason = reason_of(error)
            case Exception():
                logger.error("%s: internal error", self._followed.partition, exc_info=error)
                reason = reason_of(error)
            case _:
                return False
        self._followed.note_failure(reason, backoff_seconds=self._backoff_seconds)
        return True
