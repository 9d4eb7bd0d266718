"""Fetches of followers: they read up to the log end, and acknowledge the records before it.

A follower of a thousand partitions has all of them in its session, and fetches whenever one of them
gets records. So partitions at rest, of which the follower has everything, are compared by their
offsets only. Every half second a fetch checks them like the others: leadership, epochs, and the
time at which the follower had all records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.apis.fetch_operation import FetchOperation
from pykbroker.apis.fetch_sessions import Checked
from pykbroker.partitions.isolation import Reader
from pykbroker.partitions.reading import Fetched, read, without_records
from pykbroker.partitions.replication_quota import ReplicationQuota, is_throttled
from pykbroker_protocol.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pykbroker.apis.fetch_sessions import FetchSession, PartitionKey
    from pykbroker.apis.node import Call
    from pykbroker.partitions.partition import Partition
    from pykbroker_protocol.messages.fetch import (
        EpochEndOffset,
        FetchPartition,
        FetchRequest,
        FetchResponse,
    )


CHECK_SECONDS = 0.5
"""The usual longest time between two fetches of a follower: `replica.fetch.wait.max.ms`."""


class FollowerFetch(FetchOperation):
    """The state of a fetch request of another broker."""

    __slots__ = ("broker_epoch", "checks_all", "is_noted", "replica")

    def __init__(
        self, request: FetchRequest, call: Call, session: FetchSession | None, replica: int
    ) -> None:
        super().__init__(request, call, session, Reader.FOLLOWER, needs_leader=True)
        self.replica = replica
        self.broker_epoch = request.replica_state.replica_epoch
        self.is_noted = False
        """True after the first read: a second read, after a wait, shows no newer progress."""
        self.checks_all = session is None or not self.was_checked(session)

    # --- partitions at rest

    def was_checked(self, session: FetchSession) -> bool:
        """Returns True if all partitions were checked recently, in the present state."""
        now, generation = self.call.node.clock.monotonic(), self.call.node.generation.number
        last = session.checked
        if (
            last is not None
            and last.generation == generation
            and last.broker_epoch == self.broker_epoch
            and now - last.at < CHECK_SECONDS
        ):
            return True
        session.checked = Checked(now, generation, self.broker_epoch)
        return False

    def reset(self) -> None:
        super().reset()
        if self.session is not None:
            self.unread = self.moving_partitions(self.session)

    def moving_partitions(
        self, session: FetchSession
    ) -> Iterator[tuple[PartitionKey, FetchPartition]]:
        """Yields the partitions to read; those at rest only wait for records."""
        checks_all = self.checks_all
        if self.is_noted:  # the second read only looks for changes since the first one
            last, generation = session.checked, self.call.node.generation.number
            checks_all = last is None or last.generation != generation
        for key, it in list(session.partitions.items()):
            partition = it.at_rest
            if partition is not None and not checks_all:
                log, end_offset = partition.log, it.requested.fetch_offset
                if (
                    log.log_end_offset == end_offset
                    and partition.high_watermark == end_offset
                    and log.log_start_offset == it.log_start_offset
                ):
                    self.seen[partition] = end_offset
                    continue
            it.at_rest = None
            yield key, it.requested

    def note_rest(self, key: PartitionKey, partition: Partition) -> None:
        """Notes that the follower is in sync and has all records and offsets."""
        known = self.session.partitions.get(key) if self.session is not None else None
        if known is None or known.had_error:
            return
        log, end_offset = partition.log, known.requested.fetch_offset
        if (
            end_offset == log.log_end_offset == partition.high_watermark == known.high_watermark
            and log.log_start_offset == known.log_start_offset
            and self.replica in partition.leadership.in_sync
        ):
            known.at_rest = partition

    def bytes_missing(self) -> int:
        if self.results or not self.seen:
            return super().bytes_missing()
        return self.bytes_min if self.request.max_wait_ms > 0 else 0  # all are at rest

    def bytes_in_reach(self) -> int:
        if self.session is None:
            return super().bytes_in_reach()
        return sum(
            it.partition.bytes_ahead(
                self.session.partitions[it.key].requested.fetch_offset, self.isolation, self.reader
            )
            for it in self.results
            if it.partition is not None and it.key in self.session.partitions
        )

    # --- reading

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
        if not isinstance(outcome, Fetched):
            return
        if not outcome.records:
            self.note_rest(key, partition)
        if self.is_throttled(partition):
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
