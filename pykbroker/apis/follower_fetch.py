"""Fetches of followers: they read up to the log end, and acknowledge the records before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.apis.fetch_operation import FetchOperation
from pykbroker.partitions.isolation import Reader
from pykbroker.partitions.reading import Fetched, read, without_records
from pykbroker.partitions.replication_quota import ReplicationQuota, is_throttled
from pykbroker_protocol.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from pykbroker.apis.fetch_sessions import FetchSession, PartitionKey
    from pykbroker.apis.node import Call
    from pykbroker.partitions.partition import Partition
    from pykbroker_protocol.messages.fetch import (
        EpochEndOffset,
        FetchPartition,
        FetchRequest,
        FetchResponse,
    )


class FollowerFetch(FetchOperation):
    """The state of a fetch request of another broker."""

    __slots__ = ("broker_epoch", "is_noted", "replica")

    def __init__(
        self, request: FetchRequest, call: Call, session: FetchSession | None, replica: int
    ) -> None:
        super().__init__(request, call, session, Reader.FOLLOWER, needs_leader=True)
        self.replica = replica
        self.broker_epoch = request.replica_state.replica_epoch
        self.is_noted = False
        """True after the first read: a second read, after a wait, shows no newer progress."""

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
                del self.seen[partition]  # its bytes do not end the wait of this fetch

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

    async def wait_and_answer(self, missing: int) -> FetchResponse:
        self.is_noted = True
        return await super().wait_and_answer(missing)
