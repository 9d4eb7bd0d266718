"""Reads partitions of one topic from given offsets, with one Fetch in flight per leader."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from pykbroker.client.errors import (
    ApiError,
    ClientError,
    ConnectionFailed,
    InvalidResponse,
    error_of,
)
from pykbroker.client.retries import BACKOFF_SECONDS, Recovery, recovery_from
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.late_dataclass import dataclass
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

    from pykbroker.client.cluster_client import ClusterClient
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
    """The next offset to read in a partition; reading ends at `end`, or never if that is None."""

    partition: int
    offset: int
    end: int | None

    @property
    def is_at_end(self) -> bool:
        return self.end is not None and self.offset >= self.end

    @property
    def committable(self) -> int:
        """The next offset, not beyond `end`: the last batch may extend past it."""
        return self.offset if self.end is None else min(self.offset, self.end)


class Consumer:
    def __init__(
        self,
        client: ClusterClient,
        topic: MetadataResponseTopic,
        positions: list[Position],
        isolation_level: int,
    ) -> None:
        self._client = client
        self._topic = topic
        self._isolation_level = isolation_level
        self._positions = {position.partition: position for position in positions}

    async def records(self) -> AsyncIterator[tuple[int, list[Record]]]:
        """Yields a partition and its next records until all positions are at their end."""
        fetches: dict[asyncio.Task[FetchResponse], int] = {}
        try:
            while self._unfinished_positions():
                for leader, positions in self._by_leader(busy=set(fetches.values())).items():
                    fetches[asyncio.create_task(self._fetch(leader, positions))] = leader
                done, _ = await asyncio.wait(fetches, return_when=asyncio.FIRST_COMPLETED)
                for fetch in done:
                    del fetches[fetch]
                    for group in await self._received(fetch):
                        yield group
        finally:
            for fetch in fetches:
                fetch.cancel()
            await asyncio.gather(*fetches, return_exceptions=True)

    def _unfinished_positions(self) -> list[Position]:
        return [position for position in self._positions.values() if not position.is_at_end]

    def _by_leader(self, busy: set[int]) -> dict[int, list[Position]]:
        leaders = {it.partition_index: it.leader_id for it in self._topic.partitions}
        groups: dict[int, list[Position]] = defaultdict(list)
        for position in self._unfinished_positions():
            # A recreated topic can have fewer partitions.
            leader = leaders.get(position.partition, -1)
            if leader not in busy:
                groups[leader].append(position)
        return groups

    async def _fetch(self, leader: int, positions: list[Position]) -> FetchResponse:
        if leader < 0:
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE)
        version_max = LAST_VERSION_BY_NAME if self._topic.topic_id == ZERO_UUID else None
        return await self._client.request(
            self._request(positions), FetchResponse, node_id=leader, version_max=version_max
        )

    def _request(self, positions: list[Position]) -> FetchRequest:
        partitions = [
            FetchPartition(
                partition=position.partition,
                fetch_offset=position.offset,
                partition_max_bytes=PARTITION_BYTES_MAX,
            )
            for position in positions
        ]
        topic = FetchTopic(
            topic=self._topic.name or "", topic_id=self._topic.topic_id, partitions=partitions
        )
        return FetchRequest(
            max_wait_ms=MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=FETCH_BYTES_MAX,
            isolation_level=self._isolation_level,
            topics=[topic],
        )

    async def _received(self, fetch: asyncio.Task[FetchResponse]) -> list[tuple[int, list[Record]]]:
        """Returns the records of one response; refreshes metadata if the leader moved."""
        try:
            response = fetch.result()
            raise_if_failed(response.error_code)
            data = [part for topic in response.responses for part in topic.partitions]
            for part in data:
                self._check(part)
        except ClientError as failure:
            if not is_retriable(failure):
                raise
            await self._client.options.clock.sleep(BACKOFF_SECONDS)
            self._topic = await self._client.topic(self._topic.name or "")
            return []
        groups = [(part.partition_index, list(self._read(part))) for part in data if part.records]
        self._rotate([part.partition_index for part in data if part.records])
        return groups

    def _check(self, data: PartitionData) -> None:
        position = self._positions.get(data.partition_index)
        if position is None:
            text = f"response to Fetch has partition {data.partition_index}, not requested"
            raise InvalidResponse(text)
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            text = f"partition {position.partition} does not contain offset {position.offset}"
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, text)
        raise_if_failed(data.error_code)

    def _read(self, data: PartitionData) -> Iterator[Record]:
        """Yields records from the position on, without control records and aborted records."""
        position = self._positions[data.partition_index]
        if data.records is None:
            return
        aborted = AbortedProducers(data)
        try:
            for batch in iterate_batches(data.records):
                check_crc(batch)
                if not aborted.contain(batch) and not batch.is_control:
                    yield from self._new_records(batch, position)
                position.offset = max(position.offset, batch.next_offset)
        except TruncatedBatch:
            return  # a broker may truncate the last batch; the next fetch returns it complete
        except CorruptBatch as reason:
            text = f"partition {position.partition}, offset {position.offset}: {reason}"
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, text) from reason

    @staticmethod
    def _new_records(batch: RecordBatch, position: Position) -> Iterator[Record]:
        for record in batch.records():
            if record.offset >= position.offset and (
                position.end is None or record.offset < position.end
            ):
                yield record

    def _rotate(self, partitions: list[int]) -> None:
        """Moves partitions that returned records to the end of the next request, for fairness."""
        for partition in partitions:
            self._positions[partition] = self._positions.pop(partition)


def check_crc(batch: RecordBatch) -> None:
    if not batch.is_crc_valid():
        raise CorruptBatch("CRC mismatch")


def raise_if_failed(error_code: int) -> None:
    error = error_of(error_code)
    if error is not ErrorCode.NONE:
        raise ApiError(error)


def is_retriable(failure: ClientError) -> bool:
    if isinstance(failure, ApiError):
        return recovery_from(failure.code) is not Recovery.NONE
    return isinstance(failure, ConnectionFailed)


class AbortedProducers:
    """Tracks which producers are in an aborted transaction, batch by batch of one response.

    With read_uncommitted the response lists no aborted transactions.
    """

    def __init__(self, data: PartitionData) -> None:
        self._upcoming = sorted(
            ((it.first_offset, it.producer_id) for it in data.aborted_transactions or ()),
            reverse=True,
        )
        self._aborted: set[int] = set()

    def contain(self, batch: RecordBatch) -> bool:
        """True if the batch belongs to an aborted transaction; call it for each batch in order."""
        while self._upcoming and self._upcoming[-1][0] <= batch.last_offset:
            self._aborted.add(self._upcoming.pop()[1])
        if batch.is_control and batch.producer_id in self._aborted:
            record = next(iter(batch.records()))
            if control_record_type(record.key) is ControlRecordType.ABORT:
                self._aborted.discard(batch.producer_id)
        return batch.is_transactional and batch.producer_id in self._aborted
