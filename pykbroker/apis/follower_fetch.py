"""Fetches of followers: they read up to the log end, and acknowledge the records before it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pykbroker.apis.fetch_operation import FetchOperation, OnDisk
from pykbroker.apis.fetch_response import FetchAnswer
from pykbroker.apis.follower_session import FollowedPartition, FollowerSession
from pykbroker.apis.slices import in_slices
from pykbroker.partitions.isolation import Reader
from pykbroker.partitions.reading import Fetched, read, without_records
from pykbroker.partitions.replication_quota import ReplicationQuota, is_throttled
from pykbroker.partitions.waiting import FetchWait
from pykbroker_protocol.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pykbroker.apis.fetch_response import PartitionResult
    from pykbroker.apis.fetch_sessions import (
        FetchSession,
        FetchSessions,
        PartitionKey,
        SessionLookup,
    )
    from pykbroker.apis.node import Call
    from pykbroker.partitions.partition import Partition
    from pykbroker_protocol.messages.fetch import (
        EpochEndOffset,
        FetchPartition,
        FetchRequest,
        FetchResponse,
    )


def find_session(
    sessions: FetchSessions,
    replica: int,
    request: FetchRequest,
    *,
    uses_topic_ids: bool,
    now_ms: int,
) -> SessionLookup:
    """Like `FetchSessions.find`, for a follower."""
    session = sessions.find(
        request,
        uses_topic_ids=uses_topic_ids,
        now_ms=now_ms,
        new_session=FollowerSession,
    )
    if isinstance(session, FollowerSession):
        session.replica = replica
    return session


class FollowerAnswer(FetchAnswer):
    """Makes the response within a session of a follower."""

    __slots__ = ()

    def changed_results(self, results: list[PartitionResult]) -> list[PartitionResult]:
        changed_results = super().changed_results(results)
        assert isinstance(self.session, FollowerSession)
        self.session.answered(results)
        return changed_results


class FollowerFetch(FetchOperation):
    """The state of a fetch request of another broker."""

    __slots__ = ("arrivals", "broker_epoch", "follower_session", "is_noted", "replica")

    def __init__(
        self, request: FetchRequest, call: Call, session: FetchSession | None, replica: int
    ) -> None:
        self.follower_session = session if isinstance(session, FollowerSession) else None
        super().__init__(request, call, session, Reader.FOLLOWER, needs_leader=True)
        self.replica = replica
        self.broker_epoch = request.replica_state.replica_epoch
        self.is_noted = False
        """True after the first read: a second read, after a wait, shows no newer progress."""
        self.arrivals = 0
        if self.follower_session is not None:
            self.answering = FollowerAnswer(call, session)
            self.arrivals = self.follower_session.arrivals
            self.follower_session.begin_fetch(self.broker_epoch, call.node.clock.monotonic())
            self.unread = self.requested_partitions()

    def requested_partitions(self) -> Iterator[tuple[PartitionKey, FetchPartition]]:
        session = self.follower_session
        if session is None:
            return super().requested_partitions()
        return session.changed_partitions()

    def resolve(self, key: PartitionKey) -> Partition | Refusal:
        """Begins to watch the partition before it is read."""
        partition = super().resolve(key)
        known = self.known(key)
        if known is not None and not isinstance(partition, Refusal):
            known.begin_read(partition)
        return partition

    def known(self, key: PartitionKey) -> FollowedPartition | None:
        session = self.follower_session
        return None if session is None else session.partitions.get(key)

    async def read_from_disk(self, on_disk: OnDisk, bytes_left: int) -> Fetched | Refusal:
        """Reads in a thread; changes during the read are not part of its result."""
        known = self.known(on_disk.key)
        changes_read = 0 if known is None else known.changes_read
        outcome = await super().read_from_disk(on_disk, bytes_left)
        if known is not None:
            known.changes_read = changes_read
        return outcome

    def read(
        self, partition: Partition, requested: FetchPartition
    ) -> Fetched | Refusal | EpochEndOffset:
        """Reads after it has noted the progress, so that the response has the new watermark."""
        leader, offset = partition.leader, requested.fetch_offset
        epoch = requested.current_leader_epoch
        refusal = self.epoch_refusal(partition, requested) or leader.refusal_of_fetch(
            self.replica, self.broker_epoch, names_leader_epoch=epoch >= 0
        )
        if refusal is not None:
            return refusal
        if requested.last_fetched_epoch >= 0:
            divergence = self.divergence(partition, requested)
            if divergence is not None:
                return divergence
        log = partition.log
        if not log.log_start_offset <= offset <= log.log_end_offset:
            return Refusal(ErrorCode.OFFSET_OUT_OF_RANGE)
        if not self.is_noted:
            leader.note_fetch(
                self.replica,
                fetch_offset=offset,
                log_start_offset=requested.log_start_offset,
                broker_epoch=self.broker_epoch,
            )
        if self.is_throttled(partition) and self.is_held_back(partition):
            return without_records(partition, self.isolation, Reader.FOLLOWER)
        return read(
            partition,
            offset,
            bytes_max=self.bytes_for(requested),
            isolation=self.isolation,
            first_batch_whole=self.is_first,
            reader=Reader.FOLLOWER,
        )

    def add_result(
        self,
        key: PartitionKey,
        partition: Partition,
        outcome: Fetched | Refusal | EpochEndOffset,
    ) -> None:
        super().add_result(key, partition, outcome)
        if isinstance(outcome, Fetched) and self.is_throttled(partition):
            if outcome.records:
                self.quota.record(len(outcome.records), self.call.node.clock.monotonic())
            elif self.is_held_back(partition):
                # The bytes of this partition do not end the wait of this fetch.
                del self.seen[partition]
                if (known := self.known(key)) is not None:
                    known.is_held_back = True

    # --- leader.replication.throttled.rate (KIP-73)

    @staticmethod
    def is_throttled(partition: Partition) -> bool:
        replicas = partition.settings.leader_replication_throttled_replicas
        return bool(replicas) and is_throttled(replicas, partition.index, partition.node_id)

    def is_held_back(self, partition: Partition) -> bool:
        """Returns True above the rate, except for in-sync followers, which acks=all waits for."""
        return self.replica not in partition.leadership.in_sync and self.quota.is_exceeded(
            self.call.node.settings.leader_replication_throttled_rate,
            self.call.node.clock.monotonic(),
        )

    @property
    def quota(self) -> ReplicationQuota:
        context, settings = self.call.node.partitions.leader_context, self.call.node.settings
        if context.quota is None:
            context.quota = ReplicationQuota(
                windows=settings.replication_quota_window_num,
                window_seconds=settings.replication_quota_window_size_seconds,
            )
        return context.quota

    # --- waiting

    def bytes_missing(self) -> int:
        if self.follower_session is None:
            return super().bytes_missing()
        if self.request.max_wait_ms <= 0 or self.answering.has_errors:
            return 0
        return self.bytes_min - (self.bytes_max - self.bytes_left)

    async def wait_and_answer(self, missing: int) -> FetchResponse:
        self.is_noted = True
        session = self.follower_session
        if session is None:
            return await super().wait_and_answer(missing)
        self.reset()
        missing -= session.arrivals - self.arrivals  # since the read
        if missing > 0:
            await self.wait_in_session(session, missing)
        self.unread = self.requested_partitions()
        await self.continue_reading(self.read_next())
        return await in_slices(self.answering.answer_in_slices(self.results))

    async def wait_in_session(self, session: FollowerSession, missing: int) -> None:
        future = asyncio.get_running_loop().create_future()
        wait = session.wait = FetchWait(missing, self.isolation, future)
        seconds = self.request.max_wait_ms / 1000
        timer = self.call.node.clock.expire_later(seconds, wait.complete)
        try:
            await future
        finally:
            timer.cancel()
            if session.wait is wait:
                session.wait = None
