"""The leader side of a partition: appends, follower progress and the high watermark."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from pykbroker.partitions.admission import (
    AS_PRODUCED,
    RecordsRefused,
    ToInspect,
    admit,
    in_codec,
    inspect,
    too_large,
    unreadable,
)
from pykbroker.partitions.joining import JoiningProducers, last_epoch_ended
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.records.batch import (
    LOG_APPEND_TIME_FLAG,
    TRANSACTIONAL_FLAG,
    RecordBatch,
    stamp_create_time,
)
from pykbroker_protocol.records.control import EndTransactionMarker, marker_batch
from pykbroker_protocol.records.corrupt import CorruptBatch
from pykbroker_storage.filesystem import FlushFailed
from pykbroker_storage.log import AppendResult
from pykbroker_storage.producer import Duplicate

if TYPE_CHECKING:
    from pykbroker.partitions.followers import Followers
    from pykbroker.partitions.in_sync import InSyncProposal, ProposalOutcome, RefusalEffect
    from pykbroker.partitions.leader_context import LeaderContext
    from pykbroker.partitions.leadership import Leadership
    from pykbroker.partitions.led_replica import LedReplica
    from pykbroker_storage.log import Log

logger = logging.getLogger(__name__)

Appending: TypeAlias = "asyncio.Task[AppendResult | Refusal | RecordsRefused]"

ACKS_ALL = -1


class Leader:
    """Appends to a partition while this broker leads it; the log has no other writer."""

    __slots__ = (
        "appends_fail_since_ms",
        "context",
        "epoch_start_offset",
        "followers",
        "joining",
        "last_appending",
        "log",
        "partition",
    )

    def __init__(self, partition: LedReplica, context: LeaderContext) -> None:
        self.partition = partition
        self.context = context
        self.log: Log = partition.log
        self.joining = JoiningProducers()
        """Producers whose transaction is being verified."""
        self.last_appending: Appending | None = None
        """The last batch that waits for a thread, or for the batches before it."""
        self.appends_fail_since_ms: int | None = None
        self.epoch_start_offset = 0
        """Log end offset at the start of the leader epoch."""
        self.followers: Followers | None = None
        """None while this broker is the only replica, or not the leader."""

    # --- leadership

    def lead(self, before: Leadership | None) -> None:
        """Starts to lead, or applies newer metadata while it leads; `before` was led, too."""
        leadership, end_offset = self.partition.leadership, self.log.log_end_offset
        if before is None or leadership.leader_epoch > before.leader_epoch:
            self.epoch_start_offset = end_offset
        if len(leadership.replicas) == 1:
            self.followers = None
            return
        now = self.context.clock.monotonic()
        if self.followers is not None:
            self.followers.apply(leadership, leader_end_offset=end_offset, now=now)
            return
        from pykbroker.partitions.followers import Followers  # noqa: PLC0415 - only in a cluster

        self.followers = Followers(
            leadership, self.context, epoch_start_offset=self.epoch_start_offset, now=now
        )

    def resign(self) -> None:
        """Drops verifications and fails acks=all requests, because another broker leads now."""
        self.joining = JoiningProducers()
        self.followers = None
        self.partition.waiting.fail_commits(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    # --- appends

    def append(
        self,
        records: memoryview | None,
        *,
        required_acks: int,
        produce_version: int,
        now_ms: int,
    ) -> AppendResult | Refusal | RecordsRefused | Appending:
        """Appends the batch of a Produce request, or refuses it as a whole.

        Where inspecting the records takes long, a thread does it and the result is a task. The
        task appends the batch after all batches that arrived before it at this partition.
        """
        refusal = self.refusal_to_write(required_acks)
        if refusal is not None:
            return refusal
        batch = admit(records, self.partition.settings, produce_version, now_ms)
        if isinstance(batch, RecordBatch) and self.last_appending is None:
            return self.write_once(batch, now_ms)
        if isinstance(batch, RecordBatch | ToInspect):
            self.last_appending = self.partition.off_loop.begin(
                self.append_in_turn(batch, self.last_appending, required_acks, now_ms)
            )
            return self.last_appending
        return batch

    def refusal_to_write(self, required_acks: int) -> Refusal | None:
        partition = self.partition
        leadership = partition.leadership
        if leadership.leader != partition.node_id or not self.context.has_session:
            return Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if (
            required_acks == ACKS_ALL
            and len(leadership.in_sync) < partition.settings.min_insync_replicas
        ):
            return Refusal(ErrorCode.NOT_ENOUGH_REPLICAS)
        return None

    async def append_in_turn(
        self,
        found: RecordBatch | ToInspect,
        before: Appending | None,
        required_acks: int,
        now_ms: int,
    ) -> AppendResult | Refusal | RecordsRefused:
        """Checks sequence numbers in the order in which batches arrived."""
        try:
            batch: RecordBatch | Refusal | RecordsRefused
            if isinstance(found, ToInspect):
                work = partial(inspect, found.batch, self.partition.settings, now_ms)
                batch = await self.partition.off_loop.inspect(work)
            else:
                batch = found
            if before is not None:
                await asyncio.wait((before,))
            if not isinstance(batch, RecordBatch):
                return batch
            if self.log.is_closed:
                return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return self.refusal_to_write(required_acks) or self.write_once(batch, now_ms)
        finally:
            if self.last_appending is asyncio.current_task():
                self.last_appending = None

    def write_once(self, batch: RecordBatch, now_ms: int) -> AppendResult | Refusal:
        """Appends an admitted batch of a producer, unless it is a duplicate or out of order."""
        if batch.producer_id >= 0:
            verdict = self.verdict_on(batch)
            if verdict is not None:
                return verdict
        if self.partition.settings.compression_type != AS_PRODUCED:
            try:
                batch = in_codec(batch, self.partition.settings.compression_type)
            except CorruptBatch as error:
                return unreadable(error)
        return self.write(batch, now_ms)

    def verdict_on(self, batch: RecordBatch) -> AppendResult | Refusal | None:
        """The result of a duplicate, a refusal, or None for a batch that may be appended."""
        producers = self.log.producers
        verdict = producers.check(batch)
        if isinstance(verdict, Duplicate):
            return self.written_before(verdict)
        if batch.attributes & TRANSACTIONAL_FLAG and not producers.is_in_transaction(
            batch.producer_id, batch.producer_epoch
        ):
            return self.joining.verdict_on_first(
                batch, verdict, is_known=batch.producer_id in producers
            )
        return verdict

    def write(self, batch: RecordBatch, now_ms: int) -> AppendResult | Refusal:
        """Appends a batch within the size limits of the topic, without a check of its producer."""
        settings, size_bytes = self.partition.settings, batch.size_bytes
        if batch.attributes & LOG_APPEND_TIME_FLAG:  # the log stamps the append time
            stamp_create_time(batch.view, 0)
            batch = RecordBatch.parse(batch.view)
        if size_bytes > settings.max_message_bytes:  # it may have grown
            return too_large(size_bytes, settings.max_message_bytes)
        if size_bytes > settings.segment_bytes:
            return Refusal(ErrorCode.RECORD_LIST_TOO_LARGE)
        return self.append_batch(batch, now_ms)

    def write_marker(
        self,
        *,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        committed: bool,
        transaction_version: int,
        now_ms: int,
    ) -> AppendResult | Refusal:
        """Appends the marker that ends a producer's transaction in this partition.

        Unlike a producer's batch it requires at most as many in-sync replicas as the partition
        has: an open transaction would block the last stable offset.
        """
        if not self.partition.leads or not self.context.has_session:
            return Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if len(self.partition.leadership.in_sync) < self.partition.min_in_sync:
            return Refusal(ErrorCode.NOT_ENOUGH_REPLICAS)
        marker = EndTransactionMarker(is_commit=committed, coordinator_epoch=coordinator_epoch)
        refusal = self.log.producers.check_marker(
            marker,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            transaction_version=transaction_version,
        )
        if refusal is not None:
            return refusal
        self.joining.discard(producer_id, last_epoch_ended(producer_epoch, transaction_version))
        data = marker_batch(
            marker, producer_id=producer_id, producer_epoch=producer_epoch, timestamp_ms=now_ms
        )
        return self.append_batch(RecordBatch.parse(memoryview(bytearray(data))), now_ms)

    def append_batch(self, batch: RecordBatch, now_ms: int) -> AppendResult | Refusal:
        log, partition = self.log, self.partition
        try:
            written = log.append(batch.view, (batch,), partition.leadership.leader_epoch, now_ms)
        except FlushFailed:  # 'flushing' logs it
            return Refusal(ErrorCode.KAFKA_STORAGE_ERROR)
        except OSError as error:
            if self.appends_fail_since_ms is None:  # the first of many
                self.appends_fail_since_ms = now_ms
                logger.warning(
                    "%s: append failed (%s); producers get KAFKA_STORAGE_ERROR and retry; "
                    "no restart needed",
                    partition,
                    error.strerror or error,
                )
            other_can_lead = len(partition.leadership.in_sync) > 1
            self.context.health.note(partition, error, other_can_lead=other_can_lead)
            return Refusal(ErrorCode.KAFKA_STORAGE_ERROR)
        if self.appends_fail_since_ms is not None:
            seconds = (now_ms - self.appends_fail_since_ms) / 1000
            self.appends_fail_since_ms = None
            logger.info("%s: appends succeed again after %.0f s", partition, seconds)
        if log.log_end_offset - log.recovery_point >= log.configuration.flush_messages:
            partition.flushing.begin()
        if partition.waiting.watches or partition.waiting.follower_fetches:
            partition.waiting.bytes_appended(batch.size_bytes)
        self.advance_high_watermark()
        return written

    def written_before(self, duplicate: Duplicate) -> AppendResult:
        return AppendResult(
            duplicate.first_offset,
            duplicate.last_offset,
            duplicate.timestamp_ms,  # append time or create time of the first append
            self.log.log_start_offset,
        )

    # --- the high watermark

    def advance_high_watermark(self) -> None:
        """Moves the high watermark as far as the in-sync set allows."""
        partition, followers = self.partition, self.followers
        settled = partition.settled_offset
        if followers is None:
            partition.set_high_watermark(settled)  # without followers nothing can truncate it
            return
        context = self.context
        if not context.has_session:
            return  # a newer leader may have truncated the followers
        reached = followers.advanced_high_watermark(
            partition.high_watermark,
            leader_end_offset=self.log.log_end_offset,
            min_in_sync=partition.min_in_sync,
            now=context.clock.monotonic(),
            lag_seconds_max=context.lag_seconds_max,
        )
        partition.set_high_watermark(min(reached, settled))

    @property
    def outcome_of_commit(self) -> ErrorCode:
        """The result of acks=all for records below the high watermark."""
        followers = self.followers
        if followers is None or len(followers.maximal) >= self.partition.min_in_sync:
            return ErrorCode.NONE
        return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    # --- followers

    def refusal_of_fetch(
        self, replica: int, broker_epoch: int, *, names_leader_epoch: bool
    ) -> Refusal | None:
        """Returns the error for a fetch of a broker that does not follow this partition."""
        if self.followers is not None:
            code = self.followers.refusal_of_fetch(
                replica, broker_epoch, names_leader_epoch=names_leader_epoch
            )
            return None if code is None else Refusal(code)
        if names_leader_epoch:
            return Refusal(ErrorCode.UNKNOWN_LEADER_EPOCH)
        return Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def note_fetch(
        self, replica: int, *, fetch_offset: int, log_start_offset: int, broker_epoch: int
    ) -> None:
        """Applies the progress that a fetch shows; `refusal_of_fetch` has checked the replica."""
        followers, partition = self.followers, self.partition
        if followers is None:
            return
        followers.note_fetch(
            replica,
            fetch_offset=fetch_offset,
            log_start_offset=log_start_offset,
            broker_epoch=broker_epoch,
            leader_end_offset=self.log.log_end_offset,
            now=self.context.clock.monotonic(),
        )
        if replica not in followers.leadership.in_sync and followers.proposal is None:
            self.propose(followers.propose_to_add(replica, high_watermark=partition.high_watermark))
        if partition.waiting.deletions:
            partition.waiting.complete_deletions(self.low_watermark)
        if partition.high_watermark < self.log.log_end_offset:
            self.advance_high_watermark()

    def note_idle_fetch(self, replica: int, fetched_at: float) -> None:
        """A follower that had all records fetched again at this time, without a new position."""
        if self.followers is not None:
            self.followers.note_idle_fetch(replica, fetched_at)

    @property
    def low_watermark(self) -> int:
        start_offset, followers = self.log.log_start_offset, self.followers
        return start_offset if followers is None else followers.low_watermark(start_offset)

    def remove_lagging_followers(self) -> None:
        """Proposes an in-sync set without followers that lag; called periodically."""
        if self.followers is not None and self.context.has_session:
            proposal = self.followers.propose_to_remove(
                leader_end_offset=self.log.log_end_offset,
                now=self.context.clock.monotonic(),
                lag_seconds_max=self.context.lag_seconds_max,
            )
            self.propose(proposal)

    def propose(self, proposal: InSyncProposal | None) -> None:
        if proposal is not None and self.context.propose is not None:
            self.context.propose(self, proposal)

    def is_pending(self, proposal: InSyncProposal) -> bool:
        """Returns False after an outcome or newer metadata."""
        return self.followers is not None and self.followers.proposal is proposal

    def settle_proposal(
        self, proposal: InSyncProposal, outcome: ProposalOutcome
    ) -> RefusalEffect | None:
        """Applies the outcome of a proposal; returns the effect of a refusal."""
        followers = self.followers
        if followers is None:
            return None  # this broker has resigned
        effect = followers.settle(proposal, outcome)
        if followers.leadership is not self.partition.leadership:
            self.partition.leadership = followers.leadership
            self.partition.generation.advance()
            self.partition.waiting.offsets_changed()
        self.advance_high_watermark()
        return effect
