"""Replays Fetch from the recorded parts of the logs, regardless of how requests are divided.

A replay has no fetch sessions, so each request lists all its partitions. A batch is visible once as
many records have been produced to its partition as before it was recorded.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pykbroker.testing.recording.session import api_name
from pykbroker.testing.replaying.differences import Difference, Unrecorded
from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from pykbroker_protocol.records.batch import RecordBatch, iterate_batches
from pykbroker_protocol.records.corrupt import TruncatedBatch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pykbroker.testing.replaying.produced_records import ProducedRecords
    from pykbroker.testing.replaying.recorded_exchanges import Recorded
    from pykbroker.testing.replaying.topic_names import TopicNames
    from pykbroker_protocol.frame import RequestHeader

    TopicPartition = tuple[str, int]

ANSWER_BYTES_MAX: Final = 8 * 1024 * 1024


class Piece(NamedTuple):
    """A batch of the recorded log."""

    batch: RecordBatch
    content: bytes
    written_before: int
    """Records that were produced to the partition before the batch was first fetched."""

    @property
    def next_offset(self) -> int:
        return self.batch.next_offset


@dataclass(slots=True)
class RecordedLog:
    """The recorded part of one partition."""

    pieces: dict[int, Piece] = field(default_factory=dict)
    """Batches by base offset."""
    leads_to: dict[int, int] = field(default_factory=dict)
    """The base offset of the batch that was returned for a requested offset."""
    requested: set[int] = field(default_factory=set)
    aborted: set[tuple[int, int]] = field(default_factory=set)
    """Producer ids and first offsets of aborted transactions."""
    log_start_offset: int = -1
    refusals: dict[int, PartitionData] = field(default_factory=dict)
    """Error responses by requested offset."""

    def add(self, offset: int, row: PartitionData, written_before: int) -> None:
        self.log_start_offset = max(self.log_start_offset, row.log_start_offset)
        if row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self.refusals[offset] = row
        self.aborted |= {(it.producer_id, it.first_offset) for it in row.aborted_transactions or ()}
        position = offset
        for batch, content in whole_batches(row):
            self.leads_to.setdefault(position, batch.base_offset)
            piece = Piece(batch, content, written_before)
            self.pieces.setdefault(batch.base_offset, piece)
            position = batch.next_offset
            self.requested.add(position)

    def from_offset(self, offset: int, written: int, bytes_max: int) -> Iterator[Piece]:
        size = 0
        while (piece := self.at(offset)) is not None and piece.written_before <= written:
            size += len(piece.content)
            if size > len(piece.content) and size > bytes_max:
                return
            yield piece
            offset = piece.next_offset

    def at(self, offset: int) -> Piece | None:
        lead = self.leads_to.get(offset)
        if lead is not None:
            return self.pieces[lead]
        return next(
            (it for it in self.pieces.values() if it.batch.base_offset <= offset < it.next_offset),
            None,
        )

    def has(self, offset: int) -> bool:
        return offset in self.requested or offset in self.refusals or self.at(offset) is not None

    def aborted_in(self, pieces: list[Piece]) -> list[AbortedTransaction]:
        """The aborted transactions that overlap with the pieces."""
        if not pieces:
            return []
        first, stop = pieces[0].batch.base_offset, pieces[-1].next_offset
        return [
            AbortedTransaction(producer_id=producer_id, first_offset=began)
            for producer_id, began in sorted(self.aborted, key=lambda it: it[1])
            if began < stop and self._ended(producer_id, began) >= first
        ]

    def _ended(self, producer_id: int, began: int) -> int:
        """The offset of the transaction's marker."""
        markers = (
            offset
            for offset, it in self.pieces.items()
            if it.batch.is_control and it.batch.producer_id == producer_id and offset >= began
        )
        return min(markers, default=2**63 - 1)


def whole_batches(row: PartitionData) -> Iterator[tuple[RecordBatch, bytes]]:
    """Yields complete batches; the last batch of a response can be truncated."""
    records = row.records or b""
    try:
        position = 0
        for batch in iterate_batches(records):
            content = bytes(records[position : position + batch.size_bytes])
            position += batch.size_bytes
            yield RecordBatch.parse(content), content
    except TruncatedBatch:
        return


class FetchReplay:
    """The recorded parts of all logs."""

    def __init__(self, names: TopicNames, written: ProducedRecords) -> None:
        self._names = names
        self._written = written
        self._logs: dict[TopicPartition, RecordedLog] = {}
        self._sessions: dict[int, dict[TopicPartition, int]] = {}
        """Partitions and offsets of the fetch session of each recorded connection."""

    def add(self, recorded: Recorded) -> None:
        requested = self._session(recorded)
        for topic_partition, offset in requested.items():
            self._logs.setdefault(topic_partition, RecordedLog()).requested.add(offset)
        answer: Any = recorded.answer
        for topic in answer.responses if answer is not None else ():
            name = self._names.of(topic.topic, topic.topic_id)
            for row in topic.partitions:
                topic_partition = name, row.partition_index
                if topic_partition in requested:
                    line = recorded.exchange.answered_line
                    before = self._written.count_before(topic_partition, line)
                    self._logs[topic_partition].add(requested[topic_partition], row, before)

    def _session(self, recorded: Recorded) -> dict[TopicPartition, int]:
        """The partitions and offsets of a request, including those of its fetch session."""
        request: Any = recorded.request
        requested = self._sessions.setdefault(recorded.exchange.connection, {})
        if request.session_epoch <= 0:
            requested.clear()
        for topic in request.forgotten_topics_data:
            for partition in topic.partitions:
                requested.pop((self._names.of(topic.topic, topic.topic_id), partition), None)
        for topic in request.topics:
            name = self._names.of(topic.topic, topic.topic_id)
            requested |= {(name, it.partition): it.fetch_offset for it in topic.partitions}
        return requested

    def end_of(self, topic_partition: TopicPartition) -> int:
        """The highest offset that was requested; -1 if none was."""
        log = self._logs.get(topic_partition)
        return max(log.requested, default=-1) if log is not None else -1

    def answer(self, header: RequestHeader, request: Any) -> tuple[FetchResponse, bool]:
        """Returns the response, and True if it has records or errors. Raises Unrecorded."""
        rows = [
            (topic, [self._row(header, request, topic, it) for it in topic.partitions])
            for topic in request.topics
        ]
        answer = FetchResponse(
            responses=[
                FetchableTopicResponse(
                    topic=topic.topic, topic_id=topic.topic_id, partitions=partitions
                )
                for topic, partitions in rows
            ]
        )
        found = any(it.records or it.error_code for _, found in rows for it in found)
        return answer, found

    def _row(
        self, header: RequestHeader, request: Any, topic: Any, requested: Any
    ) -> PartitionData:
        topic_partition = self._names.of(topic.topic, topic.topic_id), requested.partition
        log = self._logs.get(topic_partition)
        offset = requested.fetch_offset
        if log is None or not log.has(offset):
            raise Unrecorded(unknown(header, topic_partition, offset, log))
        if offset in log.refusals and log.at(offset) is None:
            return log.refusals[offset].replace(partition_index=requested.partition)
        written = self._written.counts.get(topic_partition, 0)
        pieces = list(log.from_offset(offset, written, min(request.max_bytes, ANSWER_BYTES_MAX)))
        end = pieces[-1].next_offset if pieces else offset
        return PartitionData(
            partition_index=requested.partition,
            error_code=0,
            high_watermark=end,
            last_stable_offset=end,
            log_start_offset=log.log_start_offset,
            aborted_transactions=log.aborted_in(pieces) if request.isolation_level else None,
            records=b"".join(it.content for it in pieces),
        )


def unknown(
    header: RequestHeader, topic_partition: TopicPartition, offset: int, log: RecordedLog | None
) -> Difference:
    name = f"{api_name(ApiKey.FETCH)} v{header.api_version} of client {header.client_id!r}"
    where = f"{topic_partition[0]}-{topic_partition[1]}"
    if log is None:
        return Difference(what=f"{name}: {where} was not read in the recording")
    known = log.requested | set(log.pieces)
    return Difference(
        what=f"{name} of {where} differs:",
        fields=(f"fetch_offset: recorded {min(known)} to {max(known)}, now {offset}",),
    )
