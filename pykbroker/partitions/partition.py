"""One replica of a partition: its log, its role, and who waits for it."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from pykbroker.generation import Generation
from pykbroker.partitions.admission import (
    RecordsRefused,
    ToInspect,
    admit,
    inspect,
    too_large,
    unreadable,
)
from pykbroker.partitions.codec import AS_PRODUCED, in_codec
from pykbroker.partitions.flushing import Flushing, FlushThreads
from pykbroker.partitions.in_sync import advanced_high_watermark, may_write_to_all
from pykbroker.partitions.isolation import Isolation, Reader, last_stable_offset, readable_end
from pykbroker.partitions.joining import JoiningProducers, last_epoch_ended
from pykbroker.partitions.waiting import WaitingRequests
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.late_dataclass import dataclass
from pykbroker_protocol.records.batch import (
    LOG_APPEND_TIME_FLAG,
    TRANSACTIONAL_FLAG,
    RecordBatch,
    stamp_create_time,
)
from pykbroker_protocol.records.control import EndTransactionMarker, marker_batch
from pykbroker_protocol.records.corrupt import CorruptBatch
from pykbroker_storage.batch_scan import CorruptLog
from pykbroker_storage.configuration import FOREVER_MS
from pykbroker_storage.filesystem import FlushFailed
from pykbroker_storage.leader_epochs import NO_EPOCH, UNKNOWN_END, EpochEnd
from pykbroker_storage.log import AppendResult, OffsetOutOfRange
from pykbroker_storage.producer import Duplicate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pykbroker.partitions.off_loop import OffLoop
    from pykbroker.settings import TopicSettings
    from pykbroker_storage.configuration import LogConfiguration
    from pykbroker_storage.log import Log
    from pykbroker_storage.transaction_index import AbortedTransaction

logger = logging.getLogger(__name__)

Appending: TypeAlias = "asyncio.Task[AppendResult | Refusal | RecordsRefused]"

ACKS_ALL = -1
NO_LEADER = -1
NO_BYTES = memoryview(b"")
BYTES_MAX = 2**31 - 1


class Fetched(NamedTuple):
    """What a reader gets of one partition, and what it learns about it."""

    records: memoryview
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: Sequence[AbortedTransaction] | None
    """Whose records the reader is to pass over; None if it wants to see all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leadership:
    """Who leads and who follows, as the cluster's metadata says."""

    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


class Partition:
    """The shell around a log: asks the pure rules, does what they say, wakes who waits.

    Everything here runs on the event loop, and the log has no other writer.
    """

    __slots__ = (
        "appends_fail_since_ms",
        "flushing",
        "generation",
        "high_watermark",
        "index",
        "joining",
        "last_appending",
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
        self.joining = JoiningProducers()
        self.appends_fail_since_ms: int | None = None
        self.last_appending: Appending | None = None
        """The last batch that waits for a thread, or for the batches before it."""
        self.flushing = Flushing(self, flush_threads or FlushThreads())
        self.read_fails = False
        log.producers.advance_high_watermark(self.high_watermark)
        if self.leads:
            self.commit()

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"

    @property
    def leads(self) -> bool:
        return self.leadership.leader == self.node_id

    # --- writing

    def append(
        self,
        records: memoryview | None,
        *,
        required_acks: int,
        produce_version: int,
        now_ms: int,
    ) -> AppendResult | Refusal | RecordsRefused | Appending:
        """A producer's records go to the end of the log, or are refused as a whole.

        Where a look at them takes long it is done in a thread, and a task is returned. It writes
        them when all batches that came before to this partition are written.
        """
        refusal = self.refusal_to_write(required_acks)
        if refusal is not None:
            return refusal
        batch = admit(records, self.settings, produce_version, now_ms)
        if isinstance(batch, RecordBatch) and self.last_appending is None:
            return self.write_once(batch, now_ms)
        if isinstance(batch, RecordBatch | ToInspect):
            self.last_appending = self.off_loop.begin(
                self.append_in_turn(batch, self.last_appending, required_acks, now_ms)
            )
            return self.last_appending
        return batch

    def refusal_to_write(self, required_acks: int) -> Refusal | None:
        leadership = self.leadership
        if leadership.leader != self.node_id:
            return Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if required_acks == ACKS_ALL and not may_write_to_all(
            leadership.in_sync, self.settings.min_insync_replicas
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
        """Sequence numbers are checked in the order in which batches came."""
        try:
            batch: RecordBatch | Refusal | RecordsRefused
            if isinstance(found, ToInspect):
                work = partial(inspect, found.batch, self.settings, now_ms)
                batch = await self.off_loop.inspect(work)
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
        if batch.producer_id >= 0:
            verdict = self.verdict_on(batch)
            if verdict is not None:
                return verdict
        if self.settings.compression_type != AS_PRODUCED:
            try:
                batch = in_codec(batch, self.settings.compression_type)
            except CorruptBatch as error:
                return unreadable(error)
        return self.write(batch, now_ms)

    def verdict_on(self, batch: RecordBatch) -> AppendResult | Refusal | None:
        """An idempotent producer may send a batch again; its place is told, and it stays one."""
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

    @property
    def min_in_sync(self) -> int:
        """How many replicas commit a record: no more than there are, or none ever would be."""
        return min(self.settings.min_insync_replicas, len(self.leadership.replicas))

    def write(self, batch: RecordBatch, now_ms: int) -> AppendResult | Refusal:
        settings, size_bytes = self.settings, batch.size_bytes
        if batch.attributes & LOG_APPEND_TIME_FLAG:  # the topic says whose time holds
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
        """The end of a producer's transaction here, as its coordinator has decided.

        It asks for no more copies than there are replicas: without its end a transaction would
        be in the way of all readers for ever.
        """
        if not self.leads:
            return Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if not may_write_to_all(self.leadership.in_sync, self.min_in_sync):
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
        self.joining.forget(producer_id, last_epoch_ended(producer_epoch, transaction_version))
        data = marker_batch(
            marker, producer_id=producer_id, producer_epoch=producer_epoch, timestamp_ms=now_ms
        )
        return self.append_batch(RecordBatch.parse(memoryview(bytearray(data))), now_ms)

    def append_batch(self, batch: RecordBatch, now_ms: int) -> AppendResult | Refusal:
        log = self.log
        try:
            written = log.append(batch.view, (batch,), self.leadership.leader_epoch, now_ms)
        except FlushFailed:  # 'flushing' logs it
            return Refusal(ErrorCode.KAFKA_STORAGE_ERROR)
        except OSError as error:
            if self.appends_fail_since_ms is None:  # the first of many
                self.appends_fail_since_ms = now_ms
                logger.warning(
                    "%s: append failed (%s); producers get KAFKA_STORAGE_ERROR and retry; "
                    "no restart needed",
                    self,
                    error.strerror or error,
                )
            return Refusal(ErrorCode.KAFKA_STORAGE_ERROR)
        if self.appends_fail_since_ms is not None:
            seconds = (now_ms - self.appends_fail_since_ms) / 1000
            self.appends_fail_since_ms = None
            logger.info("%s: appends succeed again after %.0f s", self, seconds)
        if log.log_end_offset - log.recovery_point >= log.configuration.flush_messages:
            self.flushing.begin()
        self.commit()
        return written

    @property
    def settled_offset(self) -> int:
        """End of the records that wait for no flush: only these are acknowledged and visible.

        As in Kafka, a flush that `flush.messages` asks for comes before the acknowledgement.
        """
        log = self.log
        end_offset = log.log_end_offset
        is_flush_due = end_offset - log.recovery_point >= log.configuration.flush_messages
        if is_flush_due or log.flush_failure is not None:
            return max(log.recovery_point, self.high_watermark)
        return end_offset

    @property
    def never_waits_for_flushes(self) -> bool:
        """Whether every append is settled at once: `flush.messages` has its default."""
        return self.log.configuration.flush_messages == FOREVER_MS

    def written_before(self, duplicate: Duplicate) -> AppendResult:
        return AppendResult(
            duplicate.first_offset,
            duplicate.last_offset,
            duplicate.timestamp_ms,  # of the batch, whoever gave it
            self.log.log_start_offset,
        )

    def commit(self) -> None:
        """Moves the high watermark as far as the in-sync set allows; completes waiting requests."""
        waiting = self.waiting
        before, log, leadership = self.high_watermark, self.log, self.leadership
        stable_before = self.last_stable_offset if waiting.fetches else before
        if len(leadership.replicas) == 1:
            self.high_watermark = self.settled_offset  # nobody else could take it back
        else:
            self.high_watermark = advanced_high_watermark(
                before,
                in_sync=leadership.in_sync,
                end_offsets={self.node_id: self.settled_offset},
                min_in_sync=self.min_in_sync,
            )
        if self.high_watermark == before:
            return
        log.producers.advance_high_watermark(self.high_watermark)
        if waiting.fetches:
            self.count_for_fetches(before, stable_before)
        if waiting.commits:
            waiting.complete_commits(self.high_watermark)

    def count_for_fetches(self, committed_before: int, stable_before: int) -> None:
        """Waiting fetches count the bytes that have become readable."""
        committed = self.bytes_between(committed_before, self.high_watermark)
        stable_now = self.last_stable_offset
        if stable_before == committed_before and stable_now == self.high_watermark:
            stable = committed  # no transaction is open, as almost always
        else:
            stable = self.bytes_between(stable_before, stable_now)
        self.waiting.bytes_arrived(committed=committed, stable=stable)

    def bytes_between(self, start_offset: int, end_offset: int) -> int:
        """More than any request waits for, if it is more than one segment has or not known.

        A transaction from before the start may end in bytes that are not in memory: the waiting
        requests then read them, and the producer that has just written does not wait.
        """
        try:
            found = self.log.bytes_between(start_offset, end_offset)
        except (CorruptLog, OSError):
            return BYTES_MAX
        return BYTES_MAX if found is None else found

    def end_waits(self) -> None:
        """The partition is deleted or the broker stops: nothing else completes these requests."""
        self.waiting.complete_fetches()
        self.waiting.fail_commits(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    # --- reading

    def read(
        self,
        offset: int,
        *,
        bytes_max: int,
        isolation: Isolation,
        first_batch_whole: bool,
        reader: Reader = Reader.CONSUMER,
    ) -> Fetched | Refusal:
        """Whole batches from an offset on, as far as this reader may see.

        Raises `NotCached` instead of waiting for the disk; `disk_reads` reads in a thread.
        """
        log = self.log
        stable = self.last_stable_offset
        end_offset = self.end_for(reader, isolation, stable)
        try:
            found = log.read_cached(
                offset,
                bytes_max=bytes_max,
                end_offset=end_offset,
                first_batch_whole=first_batch_whole,
            )
            aborted = None
            if isolation is Isolation.READ_COMMITTED and reader is Reader.CONSUMER:
                aborted = log.aborted_cached(offset, found.next_offset) if found else ()
        except (OffsetOutOfRange, CorruptLog, OSError) as error:
            return self.refusal_of_read(offset, error)
        records = NO_BYTES if found is None else found.view
        return Fetched(records, self.high_watermark, stable, log.log_start_offset, aborted)

    def without_records(self, isolation: Isolation, reader: Reader) -> Fetched:
        is_careful = isolation is Isolation.READ_COMMITTED and reader is Reader.CONSUMER
        return Fetched(
            NO_BYTES,
            self.high_watermark,
            self.last_stable_offset,
            self.log.log_start_offset,
            () if is_careful else None,
        )

    def refusal_of_read(self, offset: int, error: Exception) -> Refusal:
        """The error code for a failed read. Logs the first of several failures."""
        if isinstance(error, OffsetOutOfRange):
            return Refusal(ErrorCode.OFFSET_OUT_OF_RANGE)
        if not self.read_fails:
            self.read_fails = True
            logger.error(
                "%s: stored records cannot be read at offset %d (%s); clients get an error and "
                "retry; the log is silent until a read from disk succeeds",
                self,
                offset,
                error,
            )
        if isinstance(error, CorruptLog):
            return Refusal(ErrorCode.CORRUPT_MESSAGE)
        return Refusal(ErrorCode.KAFKA_STORAGE_ERROR)

    def reads_succeed(self) -> None:
        if self.read_fails:
            self.read_fails = False
            logger.info("%s: stored records can be read again", self)

    def end_for(self, reader: Reader, isolation: Isolation, last_stable_offset: int) -> int:
        return readable_end(
            reader,
            isolation,
            last_stable_offset=last_stable_offset,
            high_watermark=self.high_watermark,
            log_end_offset=self.log.log_end_offset,
        )

    def bytes_ahead(self, offset: int, isolation: Isolation, reader: Reader) -> int:
        """How much this reader could read from an offset on; BYTES_MAX beyond one segment."""
        return self.bytes_between(offset, self.end_for(reader, isolation, self.last_stable_offset))

    @property
    def last_stable_offset(self) -> int:
        return last_stable_offset(
            self.log.producers.first_unstable_offset,
            log_start_offset=self.log.log_start_offset,
            high_watermark=self.high_watermark,
        )

    def epoch_refusal(self, current_leader_epoch: int) -> Refusal | None:
        """Client and broker must agree on the leader epoch, if the client names one (KIP-320)."""
        if not self.leads:
            return Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if current_leader_epoch in (NO_EPOCH, self.leadership.leader_epoch):
            return None
        if current_leader_epoch < self.leadership.leader_epoch:
            return Refusal(ErrorCode.FENCED_LEADER_EPOCH)
        return Refusal(ErrorCode.UNKNOWN_LEADER_EPOCH)

    def end_of_epoch(self, epoch: int) -> EpochEnd:
        """Where an epoch ended; the leader's own began where the log ended before it (KIP-101)."""
        log, leader_epoch = self.log, self.leadership.leader_epoch
        if epoch == leader_epoch:
            return EpochEnd(epoch, log.log_end_offset)
        found = log.leader_epochs.end_offset_for(epoch, log.log_end_offset)
        if found == UNKNOWN_END and epoch != NO_EPOCH and epoch < leader_epoch:
            before = log.leader_epochs.latest_epoch
            return EpochEnd(epoch if before == NO_EPOCH else before, log.log_end_offset)
        return found

    def forget_silent_producers(self, now_ms: int, producer_id_expiration_ms: int) -> None:
        self.log.producers.expire(now_ms, producer_id_expiration_ms)
        self.joining.expire(now_ms, producer_id_expiration_ms)

    # --- what the cluster decides

    def lead_or_follow(self, leadership: Leadership) -> None:
        """Applies a change of leader, epoch or in-sync set.

        When leadership moves away, waiting appends with acks=all get NOT_LEADER_OR_FOLLOWER at
        once: another leader decides which of their records stay. Waiting fetches read again and
        get the same error.
        """
        self.leadership = leadership
        self.generation.advance()
        if self.leads:
            self.commit()
        else:
            self.joining = JoiningProducers()  # the next leader verifies transactions itself
            self.waiting.fail_commits(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.waiting.complete_fetches()

    def configure(self, settings: TopicSettings, log_configuration: LogConfiguration) -> None:
        self.settings = settings
        self.log.configuration = log_configuration
        self.generation.advance()

    def delete_records_before(self, offset: int, now_ms: int) -> int | Refusal:
        """Move the start of the log; nothing above the high watermark can be deleted."""
        target = self.high_watermark if offset == -1 else offset
        if not 0 <= target <= self.high_watermark:
            return Refusal(ErrorCode.OFFSET_OUT_OF_RANGE)
        if target > self.log.log_start_offset:
            self.log.advance_log_start(target, now_ms)
        return self.log.log_start_offset
