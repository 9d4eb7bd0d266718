"""Reads one topic from chosen places on: one fetch under way per leader, records as they come."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pykbroker.cli.client import Disconnected
from pykbroker.cli.failure import CommandFailed, Refused
from pykbroker.cli.refusals import error_of
from pykbroker.cli.topic_lookup import BACKOFF_S, find_topic
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.message import ZERO_UUID
from pykbroker_protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from pykbroker_protocol.records.batch import iterate_batches
from pykbroker_protocol.records.control import ControlRecordType, control_record_type
from pykbroker_protocol.records.corrupt import CorruptBatch, TruncatedBatch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from pykbroker.cli.client import Client
    from pykbroker_protocol.messages.fetch import PartitionData
    from pykbroker_protocol.messages.metadata import MetadataResponseTopic
    from pykbroker_protocol.records.batch import RecordBatch
    from pykbroker_protocol.records.record import Record

READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
LAST_VERSION_BY_NAME: Final = 12
MAX_WAIT_MS: Final = 500
FETCH_BYTES_MAX: Final = 16 << 20
PARTITION_BYTES_MAX: Final = 1 << 20


@dataclass(slots=True, kw_only=True)
class Position:
    """Where the reading of a partition stands; it is over at `end`, unless that is None."""

    partition: int
    offset: int
    end: int | None

    @property
    def is_over(self) -> bool:
        return self.end is not None and self.offset >= self.end

    @property
    def reached(self) -> int:
        """How far was read; a batch may go on behind the end."""
        return self.offset if self.end is None else min(self.offset, self.end)


class Consumer:
    def __init__(
        self,
        client: Client,
        topic: MetadataResponseTopic,
        positions: list[Position],
        isolation_level: int,
    ) -> None:
        self._client = client
        self._topic = topic
        self._isolation_level = isolation_level
        self._positions = {position.partition: position for position in positions}

    async def records(self) -> AsyncIterator[tuple[int, list[Record]]]:
        """Partition and records, until every position is over."""
        fetches: dict[asyncio.Task[FetchResponse], int] = {}
        try:
            while self._open_positions():
                for leader, partitions in self._by_leader(busy=set(fetches.values())).items():
                    fetches[asyncio.create_task(self._fetch(leader, partitions))] = leader
                done, _ = await asyncio.wait(fetches, return_when=asyncio.FIRST_COMPLETED)
                for fetch in done:
                    del fetches[fetch]
                    for group in await self._received(fetch):
                        yield group
        finally:
            for fetch in fetches:
                fetch.cancel()
            await asyncio.gather(*fetches, return_exceptions=True)

    def _open_positions(self) -> list[Position]:
        return [position for position in self._positions.values() if not position.is_over]

    def _by_leader(self, busy: set[int]) -> dict[int, list[Position]]:
        leaders = {it.partition_index: it.leader_id for it in self._topic.partitions}
        groups: dict[int, list[Position]] = defaultdict(list)
        for position in self._open_positions():
            leader = leaders[position.partition]
            if leader not in busy:
                groups[leader].append(position)
        return groups

    async def _fetch(self, leader: int, positions: list[Position]) -> FetchResponse:
        if leader < 0:
            raise Refused(ErrorCode.LEADER_NOT_AVAILABLE)
        version_max = LAST_VERSION_BY_NAME if self._topic.topic_id == ZERO_UUID else None
        return await self._client.ask(
            self._request(positions), FetchResponse, node_id=leader, version_max=version_max
        )

    def _request(self, positions: list[Position]) -> FetchRequest:
        wanted = [
            FetchPartition(
                partition=position.partition,
                fetch_offset=position.offset,
                partition_max_bytes=PARTITION_BYTES_MAX,
            )
            for position in positions
        ]
        topic = FetchTopic(
            topic=self._topic.name or "", topic_id=self._topic.topic_id, partitions=wanted
        )
        return FetchRequest(
            max_wait_ms=MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=FETCH_BYTES_MAX,
            isolation_level=self._isolation_level,
            topics=[topic],
        )

    async def _received(self, fetch: asyncio.Task[FetchResponse]) -> list[tuple[int, list[Record]]]:
        """The records of one answer; a leader that is gone is looked for anew."""
        try:
            response = fetch.result()
            judged(response.error_code)
            data = [part for topic in response.responses for part in topic.partitions]
            for part in data:
                self._judge(part)
        except (Disconnected, Retriable):
            await asyncio.sleep(BACKOFF_S)
            self._topic = await find_topic(self._client, self._topic.name or "")
            return []
        groups = [(part.partition_index, list(self._read(part))) for part in data if part.records]
        self._rotate([part.partition_index for part in data if part.records])
        return groups

    def _judge(self, data: PartitionData) -> None:
        error = error_of(data.error_code)
        if error is ErrorCode.OFFSET_OUT_OF_RANGE:
            position = self._positions[data.partition_index]
            text = f"partition {position.partition} does not hold offset {position.offset}"
            raise Refused(error, text)
        judged(data.error_code)

    def _read(self, data: PartitionData) -> Iterator[Record]:
        """The records from our position on, without control records and aborted ones."""
        position = self._positions[data.partition_index]
        assert data.records is not None
        aborted = AbortedProducers(data)
        try:
            for batch in iterate_batches(data.records):
                check_crc(batch)
                if not aborted.covers(batch) and not batch.is_control:
                    yield from self._new_records(batch, position)
                position.offset = max(position.offset, batch.next_offset)
        except TruncatedBatch:
            return  # a broker may cut the last batch; it comes whole with the next fetch
        except CorruptBatch as reason:
            text = f"partition {position.partition}, offset {position.offset}: {reason}"
            raise Refused(ErrorCode.CORRUPT_MESSAGE, text) from reason

    @staticmethod
    def _new_records(batch: RecordBatch, position: Position) -> Iterator[Record]:
        for record in batch.records():
            if record.offset >= position.offset and (
                position.end is None or record.offset < position.end
            ):
                yield record

    def _rotate(self, partitions: list[int]) -> None:
        """Who was served stands last in the next request, so that all get their turn."""
        for partition in partitions:
            self._positions[partition] = self._positions.pop(partition)


class Retriable(CommandFailed):
    """An error that goes away when the topic is looked up again."""


def check_crc(batch: RecordBatch) -> None:
    if not batch.is_crc_valid():
        raise CorruptBatch("its checksum is wrong")


def judged(error_code: int) -> None:
    error = error_of(error_code)
    if error is ErrorCode.NONE:
        return
    if error.retriable and error is not ErrorCode.CORRUPT_MESSAGE:
        raise Retriable(str(Refused(error)))
    raise Refused(error)


class AbortedProducers:
    """Follows the aborted transactions of one answer; there are none unless committed is read."""

    def __init__(self, data: PartitionData) -> None:
        self._to_come = sorted(
            ((it.first_offset, it.producer_id) for it in data.aborted_transactions or ()),
            reverse=True,
        )
        self._aborted: set[int] = set()

    def covers(self, batch: RecordBatch) -> bool:
        while self._to_come and self._to_come[-1][0] <= batch.last_offset:
            self._aborted.add(self._to_come.pop()[1])
        if batch.is_control and batch.producer_id in self._aborted:
            record = next(iter(batch.records()))
            if control_record_type(record.key) is ControlRecordType.ABORT:
                self._aborted.discard(batch.producer_id)
        return batch.is_transactional and batch.producer_id in self._aborted
