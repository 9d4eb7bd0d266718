"""A leader that serves followers from logs of its own and follows a script of errors."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.catalog import request_of
from pykbroker_protocol.compiler import decode
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.frame import body_position, read_request_header, write_response
from pykbroker_protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from pykbroker_protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from pykbroker_protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from pykbroker_protocol.records.batch import iterate_batches
from pykbroker_storage.leader_epochs import EpochEnd
from tests.storage.batches import NOW, SMALL, batch_bytes, open_log

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from pykbroker_protocol.message import Message
    from pykbroker_storage.configuration import LogConfiguration
    from pykbroker_storage.log import Log

TOPIC, TOPIC_ID = "orders", b"o" * 16
EARLIEST = -2
NO_NEWS_SECONDS = 0.005

OFFERED = {ApiKey.FETCH: (4, 18), ApiKey.LIST_OFFSETS: (1, 11), ApiKey.API_VERSIONS: (0, 4)}


@dataclass
class LedPartition:
    """A log with the epoch in which the scripted leader leads it."""

    log: Log
    epoch: int = 0
    high_watermark: int | None = None
    """None: the log end offset."""
    errors: list[ErrorCode] = field(default_factory=list)
    """Errors of the next fetches."""
    offsets_errors: list[ErrorCode] = field(default_factory=list)
    tampering: list[Callable[[bytes], bytes]] = field(default_factory=list)
    """Changes to the records of the next fetches with records."""

    def append(self, *values: bytes, producer_id: int = -1, sequence: int = -1) -> None:
        records = batch_bytes(values, producer_id=producer_id, base_sequence=sequence)
        self.log.append(records, list(iterate_batches(records)), self.epoch, NOW)

    def answer(self, requested: FetchPartition) -> PartitionData:
        error = self._error_of(requested)
        if error is not None:
            return self._refusal(requested, error)
        log = self.log
        committed = log.log_end_offset if self.high_watermark is None else self.high_watermark
        epoch, end = self._end_of(requested.last_fetched_epoch)
        is_diverging = epoch < requested.last_fetched_epoch or end < requested.fetch_offset
        if requested.last_fetched_epoch >= 0 and is_diverging:
            return PartitionData(
                partition_index=requested.partition,
                error_code=0,
                high_watermark=committed,
                diverging_epoch=EpochEndOffset(epoch=epoch, end_offset=end),
                aborted_transactions=None,
                records=b"",
            )
        found = log.read(
            requested.fetch_offset,
            bytes_max=requested.partition_max_bytes,
            end_offset=log.log_end_offset,
        )
        records = b"" if found is None else bytes(found.view)
        if records and self.tampering:
            records = self.tampering.pop(0)(records)
        return PartitionData(
            partition_index=requested.partition,
            error_code=0,
            high_watermark=committed,
            log_start_offset=log.log_start_offset,
            aborted_transactions=None,
            records=records,
        )

    def _error_of(self, requested: FetchPartition) -> ErrorCode | None:
        if self.errors:
            return self.errors.pop(0)
        if requested.current_leader_epoch < self.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if requested.current_leader_epoch > self.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        has_epoch = requested.last_fetched_epoch >= 0
        is_unknown = has_epoch and self._end_of(requested.last_fetched_epoch).epoch < 0
        end = self.log.log_end_offset
        is_after_end = not has_epoch and requested.fetch_offset > end
        if requested.fetch_offset < self.log.log_start_offset or is_unknown or is_after_end:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        return None

    def _end_of(self, epoch: int) -> EpochEnd:
        """The leader knows its own epoch even if it has no records of it yet."""
        log = self.log
        if epoch == self.epoch:
            return EpochEnd(epoch, log.log_end_offset)
        found = log.leader_epochs.end_offset_for(epoch, log.log_end_offset)
        if found.epoch < 0 and epoch < self.epoch and log.leader_epochs.latest_epoch >= 0:
            return EpochEnd(log.leader_epochs.latest_epoch, log.log_end_offset)
        return found

    @staticmethod
    def _refusal(requested: FetchPartition, error: ErrorCode) -> PartitionData:
        return PartitionData(
            partition_index=requested.partition,
            error_code=error,
            high_watermark=-1,
            aborted_transactions=None,
            records=b"",
        )


@dataclass
class ScriptedLeader:
    """Answers each fetch fully, without a session."""

    path: Path
    partitions: dict[int, LedPartition] = field(default_factory=dict)
    errors: list[ErrorCode] = field(default_factory=list)
    """Errors of the next Fetch requests as a whole."""
    fetches: list[tuple[int, FetchRequest]] = field(default_factory=list)
    """Versions and requests, as received."""
    list_offsets: list[tuple[int, ListOffsetsRequest]] = field(default_factory=list)
    port: int = 0
    is_silent: bool = False
    connections: list[asyncio.StreamWriter] = field(default_factory=list)

    def lead(self, index: int = 0, configuration: LogConfiguration = SMALL) -> LedPartition:
        led = LedPartition(open_log(self.path / f"leader-{index}", configuration))
        self.partitions[index] = led
        return led

    def last_request(self, index: int = 0) -> FetchPartition:
        _, request = self.fetches[-1]
        return next(it for it in request.topics[0].partitions if it.partition == index)

    def drop_connections(self) -> None:
        for writer in self.connections:
            writer.transport.abort()
        self.connections.clear()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections.append(writer)
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                frame = await reader.readexactly(size)
                header = read_request_header(frame)
                message = request_of(header.api_key)
                assert message is not None
                version = header.api_version
                request = decode(message, version, frame, body_position(header, frame, message))
                response = await self.answer(request, version)
                data = b"".join(write_response(response, version, header.correlation_id))
                writer.write(len(data).to_bytes(4, "big") + data)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def answer(self, request: Message, version: int) -> Message:
        while self.is_silent:  # noqa: ASYNC110
            await asyncio.sleep(NO_NEWS_SECONDS)
        if isinstance(request, FetchRequest):
            self.fetches.append((version, request))
            return await self.fetch(request)
        if isinstance(request, ListOffsetsRequest):
            self.list_offsets.append((version, request))
            return self.offsets(request)
        return ApiVersionsResponse(
            error_code=0,
            api_keys=[
                ApiVersion(api_key=key, min_version=first, max_version=last)
                for key, (first, last) in OFFERED.items()
            ],
        )

    async def fetch(self, request: FetchRequest) -> FetchResponse:
        if self.errors:
            return FetchResponse(error_code=self.errors.pop(0), responses=())
        topics = []
        has_news = False
        for topic in request.topics:
            answers = [self.partitions[it.partition].answer(it) for it in topic.partitions]
            has_news |= any(it.records or it.error_code for it in answers)
            topics.append(FetchableTopicResponse(topic_id=topic.topic_id, partitions=answers))
        if not has_news:
            await asyncio.sleep(NO_NEWS_SECONDS)
        return FetchResponse(responses=topics)

    def offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[
                        self.offset(it.partition_index, it.timestamp) for it in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def offset(self, index: int, timestamp: int) -> ListOffsetsPartitionResponse:
        led = self.partitions[index]
        error = led.offsets_errors.pop(0) if led.offsets_errors else ErrorCode.NONE
        start, end = led.log.log_start_offset, led.log.log_end_offset
        return ListOffsetsPartitionResponse(
            partition_index=index, error_code=error, offset=start if timestamp == EARLIEST else end
        )


@asynccontextmanager
async def scripted_leader(path: Path) -> AsyncIterator[ScriptedLeader]:
    leader = ScriptedLeader(path)
    server = await asyncio.start_server(leader.serve, "127.0.0.1", 0, family=socket.AF_INET)
    leader.port = server.sockets[0].getsockname()[1]
    try:
        yield leader
    finally:
        server.close()
        leader.is_silent = False
        leader.drop_connections()
        await server.wait_closed()
        for led in leader.partitions.values():
            led.log.abandon()
