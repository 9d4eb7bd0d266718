"""What consumers were given: the parts of logs that were recorded, however they are asked for.

A replayed broker keeps no fetch sessions, so each request says all that it asks for. A batch is
there as soon as as many records have been written to its partition as when it was recorded.
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

    from pykbroker.testing.replaying.produced_records import Written
    from pykbroker.testing.replaying.recorded_exchanges import Recorded
    from pykbroker.testing.replaying.topic_names import TopicNames
    from pykbroker_protocol.frame import RequestHeader

    Place = tuple[str, int]

ANSWER_BYTES_MAX: Final = 8 * 1024 * 1024


class Piece(NamedTuple):
    """A batch of the recorded log."""

    batch: RecordBatch
    content: bytes
    written_before: int
    """How many records had been written to the partition before it was given to somebody."""

    @property
    def next_offset(self) -> int:
        return self.batch.next_offset


@dataclass(slots=True)
class Log:
    """What is known of one partition."""

    pieces: dict[int, Piece] = field(default_factory=dict)
    """By their first offset."""
    leads_to: dict[int, int] = field(default_factory=dict)
    """From an offset that was asked for to the first one that was given."""
    asked: set[int] = field(default_factory=set)
    aborted: set[tuple[int, int]] = field(default_factory=set)
    """Producers, and where their transactions began."""
    log_start_offset: int = -1
    refusals: dict[int, PartitionData] = field(default_factory=dict)
    """By the offset that was asked for."""

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
            self.asked.add(position)

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

    def knows(self, offset: int) -> bool:
        return offset in self.asked or offset in self.refusals or self.at(offset) is not None

    def aborted_in(self, pieces: list[Piece]) -> list[AbortedTransaction]:
        """Those whose end lies at or behind the beginning of what is given."""
        if not pieces:
            return []
        first, stop = pieces[0].batch.base_offset, pieces[-1].next_offset
        return [
            AbortedTransaction(producer_id=producer_id, first_offset=began)
            for producer_id, began in sorted(self.aborted, key=lambda it: it[1])
            if began < stop and self._ended(producer_id, began) >= first
        ]

    def _ended(self, producer_id: int, began: int) -> int:
        """Where its marker lies."""
        markers = (
            offset
            for offset, it in self.pieces.items()
            if it.batch.is_control and it.batch.producer_id == producer_id and offset >= began
        )
        return min(markers, default=2**63 - 1)


def whole_batches(row: PartitionData) -> Iterator[tuple[RecordBatch, bytes]]:
    """The last one may be cut off."""
    records = row.records or b""
    try:
        position = 0
        for batch in iterate_batches(records):
            content = bytes(records[position : position + batch.size_bytes])
            position += batch.size_bytes
            yield RecordBatch.parse(content), content
    except TruncatedBatch:
        return


class Fetched:
    """The recorded parts of all logs, and who asks for them."""

    def __init__(self, names: TopicNames, written: Written) -> None:
        self._names = names
        self._written = written
        self._logs: dict[Place, Log] = {}
        self._asked_on: dict[int, dict[Place, int]] = {}
        """By recorded connection: what its fetch session asks for, and from where."""

    def add(self, recorded: Recorded) -> None:
        asked = self._session(recorded)
        for place, offset in asked.items():
            self._logs.setdefault(place, Log()).asked.add(offset)
        answer: Any = recorded.answer
        for topic in answer.responses if answer is not None else ():
            name = self._names.of(topic.topic, topic.topic_id)
            for row in topic.partitions:
                place = name, row.partition_index
                if place in asked:
                    line = recorded.exchange.answered_line
                    before = self._written.count_before(place, line)
                    self._logs[place].add(asked[place], row, before)

    def _session(self, recorded: Recorded) -> dict[Place, int]:
        """What a request asks for, together with what its session asked for before."""
        request: Any = recorded.request
        asked = self._asked_on.setdefault(recorded.exchange.connection, {})
        if request.session_epoch <= 0:
            asked.clear()
        for topic in request.forgotten_topics_data:
            for partition in topic.partitions:
                asked.pop((self._names.of(topic.topic, topic.topic_id), partition), None)
        for topic in request.topics:
            name = self._names.of(topic.topic, topic.topic_id)
            asked |= {(name, it.partition): it.fetch_offset for it in topic.partitions}
        return asked

    def end_of(self, place: Place) -> int:
        """How far anybody has read there; -1 if nobody has."""
        log = self._logs.get(place)
        return max(log.asked, default=-1) if log is not None else -1

    def answer(self, header: RequestHeader, request: Any) -> tuple[FetchResponse, bool]:
        """And whether there is anything in it; raises Unrecorded."""
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

    def _row(self, header: RequestHeader, request: Any, topic: Any, asked: Any) -> PartitionData:
        place = self._names.of(topic.topic, topic.topic_id), asked.partition
        log = self._logs.get(place)
        offset = asked.fetch_offset
        if log is None or not log.knows(offset):
            raise Unrecorded(unknown(header, place, offset, log))
        if offset in log.refusals and log.at(offset) is None:
            return log.refusals[offset].replace(partition_index=asked.partition)
        written = self._written.counts.get(place, 0)
        pieces = list(log.from_offset(offset, written, min(request.max_bytes, ANSWER_BYTES_MAX)))
        end = pieces[-1].next_offset if pieces else offset
        return PartitionData(
            partition_index=asked.partition,
            error_code=0,
            high_watermark=end,
            last_stable_offset=end,
            log_start_offset=log.log_start_offset,
            aborted_transactions=log.aborted_in(pieces) if request.isolation_level else None,
            records=b"".join(it.content for it in pieces),
        )


def unknown(header: RequestHeader, place: Place, offset: int, log: Log | None) -> Difference:
    name = f"{api_name(ApiKey.FETCH)} v{header.api_version} of client {header.client_id!r}"
    where = f"{place[0]}-{place[1]}"
    if log is None:
        return Difference(what=f"{name}: nobody read {where} in the recording")
    known = log.asked | set(log.pieces)
    return Difference(
        what=f"{name} of {where} differs:",
        fields=(f"fetch_offset: recorded {min(known)} to {max(known)}, now {offset}",),
    )
