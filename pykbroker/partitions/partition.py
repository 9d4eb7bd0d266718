"""A replica of a partition: its log, leadership, high watermark and visible offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.generation import Generation
from pykbroker.partitions.flushing import Flushing, FlushThreads
from pykbroker.partitions.isolation import Isolation, Reader, last_stable_offset, readable_end
from pykbroker.partitions.leader import Leader
from pykbroker.partitions.leader_context import LeaderContext
from pykbroker.partitions.waiting import WaitingRequests
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_storage.batch_scan import CorruptLog
from pykbroker_storage.configuration import FOREVER_MS
from pykbroker_storage.leader_epochs import NO_EPOCH, UNKNOWN_END, EpochEnd

if TYPE_CHECKING:
    from pykbroker.partitions.leadership import Leadership
    from pykbroker.partitions.off_loop import OffLoop
    from pykbroker.settings import TopicSettings
    from pykbroker_storage.configuration import LogConfiguration
    from pykbroker_storage.log import Log

NO_LEADER = -1
BYTES_MAX = 2**31 - 1


class Partition:
    """A replica that this broker leads or follows. All methods run on the event loop.

    `leader` appends while this broker leads. The modules `reading` and `disk_reads` read. `waiting`
    has the requests that wait for a change of the replica.
    """

    __slots__ = (
        "flushing",
        "generation",
        "high_watermark",
        "index",
        "leader",
        "leadership",
        "log",
        "node_id",
        "off_loop",
        "read_fails",
        "settings",
        "topic",
        "topic_id",
        "waiting",
    )

    def __init__(
        self,
        *,
        topic: str,
        index: int,
        topic_id: bytes,
        node_id: int,
        log: Log,
        leadership: Leadership,
        settings: TopicSettings,
        high_watermark: int,
        off_loop: OffLoop,
        leader_context: LeaderContext | None = None,
        generation: Generation | None = None,
        flush_threads: FlushThreads | None = None,
    ) -> None:
        self.topic = topic
        self.off_loop = off_loop
        self.index = index
        self.topic_id = topic_id
        self.node_id = node_id
        self.log = log
        self.leadership = leadership
        self.settings = settings
        self.generation = generation or Generation()
        self.high_watermark = min(max(high_watermark, log.log_start_offset), log.log_end_offset)
        self.waiting = WaitingRequests()
        self.leader = Leader(self, leader_context or LeaderContext())
        self.flushing = Flushing(self, flush_threads or FlushThreads())
        self.read_fails = False
        """True from a failed read until a successful one; only the first failure is logged."""
        log.producers.advance_high_watermark(self.high_watermark)
        if self.leads:
            self.leader.lead(None)
            self.commit()

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"

    @property
    def leads(self) -> bool:
        return self.leadership.leader == self.node_id

    # --- offsets

    @property
    def min_in_sync(self) -> int:
        """`min.insync.replicas`, bounded by the number of replicas, so that records can commit."""
        return min(self.settings.min_insync_replicas, len(self.leadership.replicas))

    @property
    def settled_offset(self) -> int:
        """End of the records that need no flush; later ones are not acknowledged or visible.

        As in Kafka, a flush that `flush.messages` requires precedes the acknowledgement.
        """
        log = self.log
        end_offset = log.log_end_offset
        is_flush_due = end_offset - log.recovery_point >= log.configuration.flush_messages
        if is_flush_due or log.flush_failure is not None:
            return max(log.recovery_point, self.high_watermark)
        return end_offset

    @property
    def never_waits_for_flushes(self) -> bool:
        """True for the default of `flush.messages`: every append is settled at once."""
        return self.log.configuration.flush_messages == FOREVER_MS

    def commit(self) -> None:
        """Advances the high watermark after an append, a flush or a change of the in-sync set."""
        if self.leads:
            self.leader.advance_high_watermark()

    def set_high_watermark(self, offset: int) -> None:
        """Sets it and completes the requests that wait for it."""
        before, waiting = self.high_watermark, self.waiting
        if offset == before:
            return
        stable_before = self.last_stable_offset if waiting.fetches else before
        self.high_watermark = offset
        self.log.producers.advance_high_watermark(offset)
        if waiting.fetches:
            self.count_for_fetches(before, stable_before)
        if waiting.watches:
            waiting.offsets_changed()
        if waiting.commits:
            waiting.complete_commits(offset, self.outcome_of_commit)

    @property
    def outcome_of_commit(self) -> ErrorCode:
        """The result of acks=all for records below the high watermark."""
        return self.leader.outcome_of_commit

    def follow_truncation(self) -> None:
        """Bounds the high watermark by the log after a truncation."""
        log = self.log
        self.high_watermark = min(
            max(self.high_watermark, log.log_start_offset), log.log_end_offset
        )
        log.producers.advance_high_watermark(self.high_watermark)
        self.generation.advance()

    @property
    def low_watermark(self) -> int:
        """The smallest log start offset of the live replicas, while this broker leads."""
        return self.leader.low_watermark

    def count_for_fetches(self, committed_before: int, stable_before: int) -> None:
        """Counts the bytes that have become readable for waiting fetches."""
        committed = self.bytes_between(committed_before, self.high_watermark)
        stable_now = self.last_stable_offset
        if stable_before == committed_before and stable_now == self.high_watermark:
            stable = committed  # no transaction is open
        else:
            stable = self.bytes_between(stable_before, stable_now)
        self.waiting.bytes_arrived(committed=committed, stable=stable)

    def bytes_between(self, start_offset: int, end_offset: int) -> int:
        """The size of these records; BYTES_MAX if they span segments or their size is unknown.

        The size is unknown if the index is not in memory. The waiting requests then read the
        records; the producer that has just appended does not wait for the disk.
        """
        try:
            found = self.log.bytes_between(start_offset, end_offset)
        except (CorruptLog, OSError):
            return BYTES_MAX
        return BYTES_MAX if found is None else found

    def end_waits(self) -> None:
        """Completes all waiting requests, because the partition is deleted or the broker stops."""
        self.waiting.complete_fetches()
        self.waiting.fail_commits(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def end_for(self, reader: Reader, isolation: Isolation, last_stable_offset: int) -> int:
        """The end of the records that a reader may see."""
        return readable_end(
            reader,
            isolation,
            last_stable_offset=last_stable_offset,
            high_watermark=self.high_watermark,
            log_end_offset=self.log.log_end_offset,
        )

    def bytes_ahead(self, offset: int, isolation: Isolation, reader: Reader) -> int:
        """Bytes that this reader can read from an offset on; BYTES_MAX beyond one segment."""
        return self.bytes_between(offset, self.end_for(reader, isolation, self.last_stable_offset))

    @property
    def offsets_are_known(self) -> bool:
        """False for a new leader until its high watermark reaches its epoch's start (KIP-207).

        Until then committed records may be above the high watermark.
        """
        return self.high_watermark >= self.leader.epoch_start_offset or not self.leads

    @property
    def last_stable_offset(self) -> int:
        return last_stable_offset(
            self.log.producers.first_unstable_offset,
            log_start_offset=self.log.log_start_offset,
            high_watermark=self.high_watermark,
        )

    # --- leadership

    def epoch_refusal(
        self, current_leader_epoch: int, *, needs_leader: bool = True
    ) -> Refusal | None:
        """Returns the error if this replica has another leader epoch or is a follower (KIP-320)."""
        leadership = self.leadership
        if current_leader_epoch not in (NO_EPOCH, leadership.leader_epoch):
            if current_leader_epoch < leadership.leader_epoch:
                return Refusal(ErrorCode.FENCED_LEADER_EPOCH)
            return Refusal(ErrorCode.UNKNOWN_LEADER_EPOCH)
        if needs_leader and leadership.leader != self.node_id:
            return Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return None

    def end_of_epoch(self, epoch: int) -> EpochEnd:
        """The end offset of an epoch, for OffsetForLeaderEpoch (KIP-101)."""
        log, leader_epoch = self.log, self.leadership.leader_epoch
        if epoch == leader_epoch:
            return EpochEnd(epoch, log.log_end_offset)
        found = log.leader_epochs.end_offset_for(epoch, log.log_end_offset)
        if found == UNKNOWN_END and epoch != NO_EPOCH and epoch < leader_epoch:
            latest = log.leader_epochs.latest_epoch
            return EpochEnd(epoch if latest == NO_EPOCH else latest, log.log_end_offset)
        return found

    def lead_or_follow(self, leadership: Leadership) -> None:
        """Applies a change of leader, epoch or in-sync set.

        A response of the controller can arrive before the metadata, which is older then.

        When leadership moves away, waiting requests get NOT_LEADER_OR_FOLLOWER at once: appends
        with acks=all from `resign`, fetches because they read again.
        """
        before = self.leadership
        if leadership == before or leadership.partition_epoch < before.partition_epoch:
            return
        self.leadership = leadership
        self.generation.advance()
        if self.leads:
            self.leader.lead(before if before.leader == self.node_id else None)
            self.commit()
        else:
            self.leader.resign()
        if (leadership.leader, leadership.leader_epoch) != (before.leader, before.leader_epoch):
            self.waiting.complete_fetches()
        else:
            self.waiting.offsets_changed()

    # --- configuration and retention

    def configure(self, settings: TopicSettings, log_configuration: LogConfiguration) -> None:
        self.settings = settings
        self.log.configuration = log_configuration
        self.generation.advance()
        self.commit()  # with a smaller min.insync.replicas, records can be committed now

    def expire_producers(self, now_ms: int, producer_id_expiration_ms: int) -> None:
        self.log.producers.expire(now_ms, producer_id_expiration_ms)
        self.leader.joining.expire(now_ms, producer_id_expiration_ms)

    def delete_records_before(self, offset: int, now_ms: int) -> int | Refusal:
        """Advances the log start offset to `offset`, or to the high watermark for -1."""
        target = self.high_watermark if offset == -1 else offset
        if not 0 <= target <= self.high_watermark:
            return Refusal(ErrorCode.OFFSET_OUT_OF_RANGE)
        if target > self.log.log_start_offset:
            self.log.advance_log_start(target, now_ms)
            self.waiting.offsets_changed()
        return self.log.log_start_offset
