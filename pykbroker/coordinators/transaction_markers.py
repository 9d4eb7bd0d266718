"""Delivers the markers of a decided transaction to its partitions, with retries."""

from __future__ import annotations

import logging
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pykbroker.internal_topics import CONSUMER_OFFSETS
from pykbroker.partitions.waiting import wait_for_commit
from pykbroker.slices import next_turn
from pykbroker_protocol.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pykbroker.clock import Clock
    from pykbroker.coordination.transactions.outcome import Markers, TopicPartition
    from pykbroker.metadata.image import ClusterImage
    from pykbroker.partitions.partition import Partition
    from pykbroker.partitions.partition_registry import Partitions
    from pykbroker_storage.log import AppendResult

logger = logging.getLogger(__name__)

MARKERS_PER_SLICE = 50
"""Markers appended in one slice: a few milliseconds."""
RETRY_SECONDS_MIN, RETRY_SECONDS_MAX = 0.1, 5.0
COMMIT_CHECK_SECONDS = 30.0


class CommitsOffsets(Protocol):
    """The group coordinator, as markers use it."""

    def transaction_ended(
        self, partition_index: int, producer_id: int, *, committed: bool
    ) -> None: ...


class MarkerSender(Protocol):
    """Lets other brokers write markers."""

    async def write_markers(
        self, markers: Markers, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Returns NONE for each partition whose marker is committed, and errors of the others."""
        ...


class MarkerWriter:
    """Ends transactions in partitions that this node leads, and at the leaders of the others."""

    def __init__(
        self,
        partitions: Partitions,
        groups: CommitsOffsets,
        image: Callable[[], ClusterImage],
        clock: Clock,
    ) -> None:
        self._partitions = partitions
        self._groups = groups
        self._image = image
        self.clock = clock
        self.sender: MarkerSender | None = None
        """Set if other brokers can lead partitions."""

    def is_gone(self, topic_partition: TopicPartition) -> bool:
        """Returns True if the topic was deleted after the transaction began."""
        topic = self._image().topics.get(topic_partition.topic)
        return topic is None or topic_partition.partition >= len(topic.partitions)

    def partition(self, topic_partition: TopicPartition) -> Partition | None:
        return self._partitions.get(*topic_partition)

    def is_led_elsewhere(self, topic_partition: TopicPartition) -> bool:
        if self.sender is None or self.is_gone(topic_partition):
            return False
        partition = self.partition(topic_partition)
        return partition is None or not partition.leads

    def write(self, partition: Partition, markers: Markers) -> AppendResult | Refusal:
        """Appends a marker. In `__consumer_offsets` it commits or discards pending offsets at once.

        The group coordinator applies markers in log order, before the in-sync replicas have them.
        """
        written = partition.leader.write_marker(
            producer_id=markers.producer_id,
            producer_epoch=markers.producer_epoch,
            coordinator_epoch=markers.coordinator_epoch,
            committed=markers.committed,
            transaction_version=markers.transaction_version,
            now_ms=self.clock.now_ms(),
        )
        if not isinstance(written, Refusal) and partition.topic == CONSUMER_OFFSETS:
            self._groups.transaction_ended(
                partition.index, markers.producer_id, committed=markers.committed
            )
        return written


class Progress(Enum):
    """The state of the delivery to one partition, or to all partitions of a transaction."""

    DONE = auto()
    LATER = auto()
    TAKEN_OVER = auto()
    """Another coordinator has appended a marker and completes the transaction."""


class Unconfirmed(NamedTuple):
    """A marker that is appended and not committed yet."""

    topic_partition: TopicPartition
    partition: Partition
    leader_epoch: int
    end_offset: int

    async def until_confirmed(self, writer: MarkerWriter) -> bool:
        """Returns True once the marker is committed; False if another leader may lack it."""
        while True:
            code = await wait_for_commit(
                self.partition, self.end_offset, COMMIT_CHECK_SECONDS, clock=writer.clock
            )
            if code is not ErrorCode.REQUEST_TIMED_OUT:
                return code is ErrorCode.NONE and self.is_led_as_before(writer)
            if writer.is_gone(self.topic_partition):
                return True
            if not self.is_led_as_before(writer):
                return False

    def is_led_as_before(self, writer: MarkerWriter) -> bool:
        return (
            writer.partition(self.topic_partition) is self.partition
            and self.partition.leadership.leader_epoch == self.leader_epoch
        )


class Delivery:
    """The markers of one transaction, and the partitions that still need one."""

    def __init__(self, markers: Markers, writer: MarkerWriter) -> None:
        self.markers = markers
        self._writer = writer
        self._left = list(markers.partitions)
        self._led_elsewhere: list[TopicPartition] = []
        self._unconfirmed: list[Unconfirmed] = []
        self._is_logged = False

    def attempt(self) -> Progress:
        """Appends one slice of markers; returns DONE if none is left."""
        slice_, later = self._left[:MARKERS_PER_SLICE], self._left[MARKERS_PER_SLICE:]
        elsewhere = [it for it in slice_ if self._writer.is_led_elsewhere(it)]
        if elsewhere:
            self._led_elsewhere += elsewhere
            slice_ = [it for it in slice_ if it not in elsewhere]  # at most MARKERS_PER_SLICE
        progress = {topic_partition: self._end_at(topic_partition) for topic_partition in slice_}
        if Progress.TAKEN_OVER in progress.values():
            return Progress.TAKEN_OVER
        # Partitions that could not append a marker are retried after the others.
        self._left = later + [it for it in slice_ if progress[it] is Progress.LATER]
        return Progress.LATER if self._is_unfinished else Progress.DONE

    @property
    def _is_unfinished(self) -> bool:
        return bool(self._left or self._led_elsewhere or self._unconfirmed)

    async def until_done(self) -> Progress:
        """Retries until all markers are committed; pauses grow while no append succeeds."""
        pause_seconds = 0.0
        while self._is_unfinished:
            before = len(self._left) + len(self._led_elsewhere)
            if self.attempt() is Progress.TAKEN_OVER:
                return Progress.TAKEN_OVER
            if await self._send() is Progress.TAKEN_OVER:
                return Progress.TAKEN_OVER
            if not self._left:
                await self._confirm()
                continue
            has_progressed = len(self._left) < before
            pause_seconds = 0.0 if has_progressed else next_pause_seconds(pause_seconds)
            await (self._writer.clock.sleep(pause_seconds) if pause_seconds else next_turn())
        return Progress.DONE

    async def _send(self) -> Progress:
        """Lets the leaders on other brokers write markers; failed ones are decided again."""
        partitions, self._led_elsewhere = self._led_elsewhere, []
        if not partitions:
            return Progress.DONE
        sender = self._writer.sender
        assert sender is not None, "without other brokers no partition is led elsewhere"
        codes = await sender.write_markers(self.markers, partitions)
        failed = {it: code for it, code in codes.items() if code is not ErrorCode.NONE}
        progress = {it: self._progress_after(Refusal(code), it) for it, code in failed.items()}
        if Progress.TAKEN_OVER in progress.values():
            return Progress.TAKEN_OVER
        self._left += [it for it in partitions if progress.get(it) is Progress.LATER]
        return Progress.DONE

    async def _confirm(self) -> None:
        waiting, self._unconfirmed = self._unconfirmed, []
        for it in waiting:
            if not await it.until_confirmed(self._writer):
                self._left.append(it.topic_partition)

    def _end_at(self, topic_partition: TopicPartition) -> Progress:
        partition = self._writer.partition(topic_partition)
        if partition is None:
            gone = self._writer.is_gone(topic_partition)
            return (
                Progress.DONE
                if gone
                else self._later(topic_partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            )
        written = self._writer.write(partition, self.markers)
        if isinstance(written, Refusal):
            return self._progress_after(written, topic_partition)
        if partition.high_watermark <= written.last_offset:
            epoch = partition.leadership.leader_epoch
            end_offset = written.last_offset + 1
            self._unconfirmed.append(Unconfirmed(topic_partition, partition, epoch, end_offset))
        return Progress.DONE

    def _progress_after(self, refusal: Refusal, topic_partition: TopicPartition) -> Progress:
        match refusal.code:
            case ErrorCode.TRANSACTION_COORDINATOR_FENCED:
                logger.warning(
                    "transactional id %s: %s-%d has a marker of another coordinator; "
                    "that coordinator completes the transaction",
                    self.markers.transactional_id,
                    *topic_partition,
                )
                return Progress.TAKEN_OVER
            case ErrorCode.INVALID_PRODUCER_EPOCH:
                # The producer has a newer epoch, so this marker was appended before.
                return Progress.DONE
            case _:
                return self._later(topic_partition, refusal.code)

    def _later(self, topic_partition: TopicPartition, code: ErrorCode) -> Progress:
        if not self._is_logged:
            self._is_logged = True
            logger.warning(
                "transactional id %s: marker for %s-%d not appended (%s); retrying",
                self.markers.transactional_id,
                *topic_partition,
                code.name,
            )
        return Progress.LATER


def next_pause_seconds(pause_seconds: float) -> float:
    return min(max(2 * pause_seconds, RETRY_SECONDS_MIN), RETRY_SECONDS_MAX)
