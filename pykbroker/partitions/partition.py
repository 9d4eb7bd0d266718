"""One replica of a partition: its log, its role, and who waits for it."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pykbroker.partitions.admission import RecordsRefused, admit, too_large
from pykbroker.partitions.in_sync import advanced_high_watermark, may_write_to_all
from pykbroker.partitions.isolation import Isolation, Reader, last_stable_offset, readable_end
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.records.batch import LOG_APPEND_TIME_FLAG, RecordBatch, stamp_create_time
from pykbroker_protocol.records.compression import Compression
from pykbroker_protocol.records.contents import recompress, validate_contents
from pykbroker_protocol.records.corrupt import CorruptBatch
from pykbroker_storage.log import OffsetOutOfRange
from pykbroker_storage.producer import Duplicate

if TYPE_CHECKING:
    from pykbroker.partitions.waiting import BytesAwaited, CommitAwaited
    from pykbroker.settings import TopicSettings
    from pykbroker_storage.log import Log

logger = logging.getLogger(__name__)

ACKS_ALL = -1
NO_LEADER = -1
NO_BYTES = memoryview(b"")


class Written(NamedTuple):
    """Where the records of a Produce have come to lie."""

    first_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int


class Fetched(NamedTuple):
    """What a reader gets of one partition, and what it learns about it."""

    records: memoryview
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int


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
        "bytes_awaited",
        "commits_awaited",
        "high_watermark",
        "index",
        "leadership",
        "log",
        "node_id",
        "settings",
        "topic",
        "topic_id",
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
    ) -> None:
        self.topic = topic
        self.index = index
        self.topic_id = topic_id
        self.node_id = node_id
        self.log = log
        self.leadership = leadership
        self.settings = settings
        self.high_watermark = min(max(high_watermark, log.log_start_offset), log.log_end_offset)
        self.bytes_awaited: set[BytesAwaited] = set()
        self.commits_awaited: list[CommitAwaited] = []
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
    ) -> Written | Refusal | RecordsRefused:
        """A producer's records go to the end of the log, or are refused as a whole."""
        if not self.leads:
            return Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if required_acks == ACKS_ALL and not self.has_enough_in_sync:
            return Refusal(ErrorCode.NOT_ENOUGH_REPLICAS)
        batch = admit(records, self.settings, produce_version=produce_version, now_ms=now_ms)
        return self.write_once(batch, now_ms) if isinstance(batch, RecordBatch) else batch

    def write_once(self, batch: RecordBatch, now_ms: int) -> Written | Refusal:
        """An idempotent producer may send a batch again; its place is told, and it stays one."""
        if batch.producer_id >= 0:
            verdict = self.log.producers.check(batch)
            if isinstance(verdict, Duplicate):
                return self.written_before(verdict)
            if isinstance(verdict, Refusal):
                return verdict
        try:
            batch = self.in_the_topics_codec(batch)
        except CorruptBatch as error:
            return Refusal(ErrorCode.INVALID_RECORD, f"The records are not readable: {error}.")
        return self.write(batch, now_ms)

    @property
    def has_enough_in_sync(self) -> bool:
        return may_write_to_all(self.leadership.in_sync, self.min_in_sync)

    @property
    def min_in_sync(self) -> int:
        """No more can be asked than there are replicas."""
        return min(self.settings.min_insync_replicas, len(self.leadership.replicas))

    def in_the_topics_codec(self, batch: RecordBatch) -> RecordBatch:
        """Most topics keep the producer's bytes; `compression.type` may ask for other ones."""
        wanted = self.settings.compression_type
        if wanted == "producer":
            return batch
        codec = Compression.NONE if wanted == "uncompressed" else Compression[wanted.upper()]
        if batch.compression is codec:
            return batch
        validate_contents(batch)
        return RecordBatch.parse(memoryview(bytearray(recompress(batch, codec))))

    def write(self, batch: RecordBatch, now_ms: int) -> Written | Refusal:
        if batch.attributes & LOG_APPEND_TIME_FLAG:  # the topic says whose time holds
            stamp_create_time(batch.view, 0)
            batch = RecordBatch.parse(batch.view)
        if batch.size_bytes > self.settings.max_message_bytes:  # it may have grown
            return too_large(batch.size_bytes, self.settings.max_message_bytes)
        if batch.size_bytes > self.settings.segment_bytes:
            return Refusal(ErrorCode.RECORD_LIST_TOO_LARGE)
        log = self.log
        try:
            appended = log.append(
                batch.view, (batch,), leader_epoch=self.leadership.leader_epoch, now_ms=now_ms
            )
        except OSError as error:
            logger.warning("%s: cannot append, the producer is told to try again: %s", self, error)
            return Refusal(ErrorCode.KAFKA_STORAGE_ERROR)
        self.commit()
        return Written(
            appended.first_offset,
            appended.last_offset,
            appended.log_append_time_ms,
            log.log_start_offset,
        )

    def written_before(self, duplicate: Duplicate) -> Written:
        return Written(
            duplicate.first_offset,
            duplicate.last_offset,
            duplicate.timestamp_ms,  # of the batch, whoever gave it
            self.log.log_start_offset,
        )

    def commit(self) -> None:
        """Move the high watermark as far as the in-sync set allows, and wake who waits for it."""
        before = self.high_watermark
        self.high_watermark = advanced_high_watermark(
            before,
            in_sync=self.leadership.in_sync,
            end_offsets={self.node_id: self.log.log_end_offset},
            min_in_sync=self.min_in_sync,
        )
        if self.high_watermark == before:
            return
        self.log.producers.pass_high_watermark(self.high_watermark)
        if self.bytes_awaited:
            self.tell_readers(before)
        if self.commits_awaited:
            self.commits_awaited[:] = [
                it for it in self.commits_awaited if not it.committed(self.high_watermark)
            ]

    def tell_readers(self, offset: int) -> None:
        """How many bytes have become readable is what a waiting fetch counts."""
        found = self.log.read(offset, bytes_max=2**31 - 1, end_offset=self.high_watermark)
        arrived = 0 if found is None else len(found.view)
        for awaited in tuple(self.bytes_awaited):
            awaited.arrived(arrived)

    def wake_all(self) -> None:
        """Something other than new bytes has changed: whoever waits shall look again."""
        for awaited in tuple(self.bytes_awaited):
            awaited.wake()

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
        """Whole batches from an offset on, as far as this reader may see."""
        log = self.log
        stable = self.last_stable_offset
        end_offset = readable_end(
            reader,
            isolation,
            last_stable_offset=stable,
            high_watermark=self.high_watermark,
            log_end_offset=log.log_end_offset,
        )
        try:
            found = log.read(
                offset,
                bytes_max=bytes_max,
                end_offset=end_offset,
                first_batch_whole=first_batch_whole,
            )
        except OffsetOutOfRange:
            return Refusal(ErrorCode.OFFSET_OUT_OF_RANGE)
        except OSError as error:
            logger.warning("%s: cannot read at offset %d: %s", self, offset, error)
            return Refusal(ErrorCode.KAFKA_STORAGE_ERROR)
        records = NO_BYTES if found is None else found.view
        return Fetched(records, self.high_watermark, stable, log.log_start_offset)

    @property
    def last_stable_offset(self) -> int:
        return last_stable_offset(self.log.producers.first_unstable_offset, self.high_watermark)

    def epoch_refusal(self, current_leader_epoch: int) -> Refusal | None:
        """Client and broker must agree on the leader epoch, if the client names one (KIP-320)."""
        if not self.leads:
            return Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if current_leader_epoch < 0 or current_leader_epoch == self.leadership.leader_epoch:
            return None
        if current_leader_epoch < self.leadership.leader_epoch:
            return Refusal(ErrorCode.FENCED_LEADER_EPOCH)
        return Refusal(ErrorCode.UNKNOWN_LEADER_EPOCH)

    # --- what the cluster decides

    def lead_or_follow(self, leadership: Leadership) -> None:
        self.leadership = leadership
        if self.leads:
            self.commit()
        self.wake_all()

    def delete_records_before(self, offset: int, now_ms: int) -> int | Refusal:
        """Move the start of the log; nothing above the high watermark can be deleted."""
        target = self.high_watermark if offset == -1 else offset
        if not 0 <= target <= self.high_watermark:
            return Refusal(ErrorCode.OFFSET_OUT_OF_RANGE)
        if target > self.log.log_start_offset:
            self.log.advance_log_start(target, now_ms)
        return self.log.log_start_offset
