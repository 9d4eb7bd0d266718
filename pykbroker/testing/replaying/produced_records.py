"""Replays Produce record by record, regardless of how records are batched."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from pykbroker.testing.recording.session import api_name
from pykbroker.testing.replaying.differences import Difference, Unrecorded, shown
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from pykbroker_protocol.records.batch import NO_PRODUCER_ID, iterate_batches

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pykbroker.testing.replaying.differences import Differences
    from pykbroker.testing.replaying.recorded_exchanges import Recorded
    from pykbroker.testing.replaying.topic_names import TopicNames
    from pykbroker_protocol.frame import RequestHeader
    from pykbroker_protocol.records.batch import RecordBatch

    TopicPartition = tuple[str, int]


class Row(NamedTuple):
    """The fields of a record that must match. Timestamps, sequences and compression may differ."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]

    def __str__(self) -> str:
        headers = f" headers={shown(self.headers)}" if self.headers else ""
        return f"key={shown(self.key)} value={shown(self.value)}{headers}"


class WrittenRow(NamedTuple):
    row: Row
    topic_partition: TopicPartition
    offset: int
    """-1 for a rejected or unacknowledged record."""
    answer: PartitionProduceResponse
    line: int


class ProducedRecords:
    """The recorded records that are still expected, in order, per partition and client."""

    def __init__(self, names: TopicNames, differences: Differences) -> None:
        self._names = names
        self._differences = differences
        self._streams: dict[TopicPartition, dict[str | None, deque[WrittenRow]]] = {}
        self._recorded_lines: dict[TopicPartition, list[int]] = {}
        self._batches: set[tuple[TopicPartition, int, int, int]] = set()
        self.counts: dict[TopicPartition, int] = {}
        """Number of records per partition that the replay has received."""

    def add(self, recorded: Recorded) -> None:
        answers = answers_by_partition(recorded.answer, self._names)
        line = recorded.exchange.line
        for topic_partition, partition in self._partitions(recorded.request):
            answer = answers.get(topic_partition) or PartitionProduceResponse(
                index=topic_partition[1], error_code=0, base_offset=-1
            )
            streams = self._streams.setdefault(topic_partition, {})
            rows = streams.setdefault(recorded.exchange.header.client_id, deque())
            new = [it for it in batches_in(partition) if not self._is_retry(topic_partition, it)]
            for number, row in enumerate(row for batch in new for row in rows_of(batch)):
                offset = answer.base_offset + number if answer.base_offset >= 0 else -1
                rows.append(WrittenRow(row, topic_partition, offset, answer, line))
                self._recorded_lines.setdefault(topic_partition, []).append(line)

    def _is_retry(self, topic_partition: TopicPartition, batch: RecordBatch) -> bool:
        """True for a batch that an idempotent producer has repeated."""
        if batch.producer_id == NO_PRODUCER_ID:
            return False
        batch_id = topic_partition, batch.producer_id, batch.producer_epoch, batch.base_sequence
        if batch_id in self._batches:
            return True
        self._batches.add(batch_id)
        return False

    def count_before(self, topic_partition: TopicPartition, line: int) -> int:
        """Number of records that were sent to a partition before this line of the recording."""
        return sum(1 for it in self._recorded_lines.get(topic_partition, ()) if it < line)

    def answer(self, header: RequestHeader, request: Any) -> ProduceResponse | None:
        """Returns None for acks=0."""
        answers = {
            topic_partition: self._answer(topic_partition, header, partition)
            for topic_partition, partition in self._partitions(request)
        }
        if request.acks == 0:
            return None
        return ProduceResponse(
            responses=[
                TopicProduceResponse(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partition_responses=[
                        answers[self._names.of(topic.name, topic.topic_id), it.index]
                        for it in topic.partition_data
                    ],
                )
                for topic in request.topic_data
            ]
        )

    def _answer(
        self, topic_partition: TopicPartition, header: RequestHeader, partition: Any
    ) -> PartitionProduceResponse:
        """The recorded response. Unrecorded records get INVALID_RECORD, which is not retried."""
        rows = [row for batch in batches_in(partition) for row in rows_of(batch)]
        try:
            found = self._take(topic_partition, header, rows)
        except Unrecorded as unrecorded:
            self._differences.add(unrecorded.difference)
            return PartitionProduceResponse(
                index=topic_partition[1],
                error_code=ErrorCode.INVALID_RECORD,
                base_offset=-1,
                error_message=str(unrecorded),
            )
        for it in found:  # counted for the recorded partition, from batch_id it is fetched
            self.counts[it.topic_partition] = self.counts.get(it.topic_partition, 0) + 1
        return found[0].answer.replace(index=topic_partition[1], base_offset=found[0].offset)

    def _take(
        self, topic_partition: TopicPartition, header: RequestHeader, rows: list[Row]
    ) -> list[WrittenRow]:
        for stream in self._candidates(topic_partition, header.client_id, rows):
            if [it.row for it in islice(stream, len(rows))] == rows:
                return [stream.popleft() for _ in rows]
        gathered = self._gather(topic_partition[0], rows)
        if gathered is None:
            raise Unrecorded(self._difference(topic_partition, header, rows))
        return gathered

    def _gather(self, topic: str, rows: list[Row]) -> list[WrittenRow] | None:
        """Records without keys go to random partitions: searches all partitions for each record."""
        if any(row.key is not None for row in rows):
            return None
        streams = [
            stream
            for (name, _), by_client in sorted(self._streams.items())
            if name == topic
            for stream in by_client.values()
        ]
        found: list[tuple[deque[WrittenRow], WrittenRow]] = []
        for row in rows:
            taken = {id(it) for _, it in found}
            match = (
                (stream, it)
                for stream in streams
                for it in stream
                if it.row == row and id(it) not in taken
            )
            if (next_found := next(match, None)) is None:
                return None
            found.append(next_found)
        for stream, it in found:
            stream.remove(it)
        return [it for _, it in found]

    def _candidates(
        self, topic_partition: TopicPartition, client_id: str | None, rows: list[Row]
    ) -> Iterator[deque[WrittenRow]]:
        """Yields the client's stream of the partition, then other streams that can match."""
        topic, _ = topic_partition
        topic_partitions = [topic_partition]
        if all(row.key is None for row in rows):
            topic_partitions += sorted(
                it for it in self._streams if it[0] == topic and it != topic_partition
            )
        for each in topic_partitions:
            streams = self._streams.get(each, {})
            if client_id in streams:
                yield streams[client_id]
            yield from (stream for name, stream in streams.items() if name != client_id)

    def _difference(
        self, topic_partition: TopicPartition, header: RequestHeader, rows: list[Row]
    ) -> Difference:
        name = f"{api_name(header.api_key)} of client {header.client_id!r}"
        where = f"{topic_partition[0]}-{topic_partition[1]}"
        for stream in self._candidates(topic_partition, header.client_id, rows):
            for requested, expected in zip(rows, stream, strict=False):
                if requested != expected.row:
                    return Difference(
                        what=f"{name} to {where} differs from line {expected.line}:",
                        fields=(f"recorded {expected.row}", f"now      {requested}"),
                    )
        return Difference(
            what=f"{name} to {where}: no more records were recorded",
            fields=tuple(f"now      {row}" for row in rows[:3]),
        )

    def missing(self) -> Iterator[Difference]:
        for (topic, partition), streams in sorted(self._streams.items()):
            left = [it for stream in streams.values() for it in stream]
            if left:
                yield Difference(
                    what=f"records to {topic}-{partition} are missing ({len(left)}), the first is",
                    fields=(f"recorded {left[0].row} (line {left[0].line})",),
                )

    def _partitions(self, request: Any) -> Iterator[tuple[TopicPartition, Any]]:
        for topic in request.topic_data:
            name = self._names.of(topic.name, topic.topic_id)
            for partition in topic.partition_data:
                yield (name, partition.index), partition


def answers_by_partition(
    answer: Any, names: TopicNames
) -> dict[TopicPartition, PartitionProduceResponse]:
    return {
        (names.of(topic.name, topic.topic_id), it.index): it
        for topic in (answer.responses if answer is not None else ())
        for it in topic.partition_responses
    }


def batches_in(partition: Any) -> Iterable[RecordBatch]:
    return iterate_batches(partition.records or b"")


def rows_of(batch: RecordBatch) -> Iterator[Row]:
    for it in batch.records():
        yield Row(it.key, it.value, tuple(it.headers))
