"""The fast path of Produce: a request that differs from an earlier one only in its records.

The connection keeps the bytes before the records, the partition that they name, and the response
without its numbers. `fast_path` lists the checks that are not repeated.
"""

from __future__ import annotations

import asyncio
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from pykbroker.apis.answers import Deferred, Waiting
from pykbroker.apis.fast_path import REQUESTS_MAX
from pykbroker.apis.joining_transactions import (
    LOW_ATTRIBUTES_AT,
    TOPIC_IDS_SINCE_VERSION,
)
from pykbroker.apis.node import Call
from pykbroker.apis.produce import (
    ALL,
    LEADER_HINT_SINCE_VERSION,
    refused,
    until_settled,
    with_leaders,
)
from pykbroker_protocol.compiler import MalformedMessage, encode
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.frame import body_position, read_request_header
from pykbroker_protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from pykbroker_protocol.records.batch import TRANSACTIONAL_FLAG
from pykbroker_protocol.varint import read_uvarint, uvarint
from pykbroker_storage.log import AppendResult

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pykbroker.apis.fast_path import Route
    from pykbroker.apis.node import Node
    from pykbroker.apis.peer import Peer
    from pykbroker.partitions.admission import RecordsRefused
    from pykbroker.partitions.leader import Appending
    from pykbroker.partitions.partition import Partition
    from pykbroker_protocol.compiler import Buffer
    from pykbroker_protocol.message import Message

_HEAD = Struct(">ii")
"""API key and version as one number (the key of Produce is 0), and the correlation id."""
_CORRELATION = Struct(">i")
_LENGTH = Struct(">i")
_NUMBERS = Struct(">qqq")
"""Base offset, append time and log start offset, which are adjacent in a response."""
SINCE_VERSION = 5
"""Earlier responses have no log start offset."""
MARKS = (0x7A11_0FF5_E700_0001, 0x7A11_0FF5_E700_0002, 0x7A11_0FF5_E700_0003)
NO_TAGS = b"\0\0\0"
"""Tagged fields after the records, in flexible versions: of partition, topic and request."""
KEY_BYTES_MAX = 1024
"""Requests with more bytes before their records are rare and not worth the memory."""


class Known(NamedTuple):
    """The partition of such a request, and its response."""

    generation: int
    """The generation in which the general path served the request last."""
    topic: str
    topic_id: bytes | None
    partition: int
    acks: int
    timeout_ms: int
    answer: bytes
    numbers_at: int


class Repeats:
    """The Produce requests that a connection has sent before, by their bytes before the records.

    Only the latest version and position of the records is kept.
    """

    __slots__ = ("_kind", "_known", "_length_at", "_node", "_peer", "_route", "_stored_count")

    def __init__(self, node: Node, peer: Peer) -> None:
        self._node = node
        self._peer = peer
        self._route: Route | None = None
        self._kind = self._length_at = -1
        self._known: dict[bytes, Known] = {}
        self._stored_count = 0

    @property
    def may_store(self) -> bool:
        return self._stored_count < REQUESTS_MAX

    def renew(self, frame: memoryview) -> bool:
        """Returns whether the request is known; then makes it valid in the present generation."""
        length_at = self._length_at
        if len(frame) <= length_at or _HEAD.unpack_from(frame)[0] != self._kind:
            return False
        key = bytes(frame[_HEAD.size : length_at])
        known = self._known.get(key)
        if known is None:
            return False
        partition = self._node.partitions.get(known.topic, known.partition)
        if partition is not None and is_plain(partition, known.topic_id):
            self._known[key] = known._replace(generation=self._node.generation.number)
        return True

    def store(self, frame: memoryview, length_at: int, route: Route, known: Known) -> None:
        self._stored_count += 1
        kind, _ = _HEAD.unpack_from(frame)
        if (kind, length_at) != (self._kind, self._length_at):
            self._kind, self._length_at, self._route = kind, length_at, route
            self._known = {}
        self._known[bytes(frame[_HEAD.size : length_at])] = known

    def answer(self, frame: memoryview) -> Sequence[Buffer] | Waiting | None:
        """The response; None, without side effects, if the general path must serve the request."""
        length_at, route = self._length_at, self._route
        if route is None or len(frame) <= length_at:
            return None
        kind, correlation_id = _HEAD.unpack_from(frame)
        if kind != self._kind:
            return None
        known = self._known.get(bytes(frame[8:length_at]))  # after the head
        node = self._node
        if known is None or known.generation != node.generation.number:
            return None
        records = records_at(frame, length_at, is_flexible=route.is_flexible)
        if records is None or records[LOW_ATTRIBUTES_AT] & TRANSACTIONAL_FLAG:
            return None
        partition = node.partitions.get(known.topic, known.partition)
        assert partition is not None, "a deleted partition advances the generation"
        written = partition.leader.append(
            records,
            required_acks=known.acks,
            produce_version=kind,
            now_ms=node.clock.now_ms(),
        )
        if isinstance(written, AppendResult) and (
            known.acks != ALL or partition.high_watermark > written.last_offset
        ):
            return response_with(known, written, correlation_id)
        return Repeat(known, partition, route, correlation_id, node, self._peer).follow(written)


def response_with(known: Known, written: AppendResult, correlation_id: int) -> Sequence[Buffer]:
    response = bytearray(known.answer)
    _CORRELATION.pack_into(response, 0, correlation_id)
    first_offset, _, time_ms, log_start_offset = written
    _NUMBERS.pack_into(response, known.numbers_at, first_offset, time_ms, log_start_offset)
    return [response]


class Repeat(NamedTuple):
    """One such request whose response is sent later, or is an error."""

    known: Known
    partition: Partition
    route: Route
    correlation_id: int
    node: Node
    peer: Peer

    def follow(
        self, written: AppendResult | Refusal | RecordsRefused | Appending
    ) -> Sequence[Buffer] | Waiting:
        if isinstance(written, asyncio.Task):
            return Waiting(Deferred(written, self.answer_when_appended), pipelined=False)
        if isinstance(written, AppendResult):
            return Waiting(Deferred(written, self.answer_when_settled), pipelined=True)
        return self.refuse(written)

    def refuse(self, refusal: Refusal | RecordsRefused) -> Sequence[Buffer]:
        known, version = self.known, self.route.version
        rejected = refused(known.partition, refusal, self.partition.log.log_start_offset)
        response = response_of(known.topic, known.topic_id, rejected)
        if version >= LEADER_HINT_SINCE_VERSION:
            response = with_leaders(response, Call(self.node, version, None, self.peer))
        return self.route.write(response, self.correlation_id)

    async def answer_when_appended(self, appending: Appending) -> Sequence[Buffer]:
        """The append completes even if the client disconnects."""
        written = await asyncio.shield(appending)
        if isinstance(written, AppendResult):
            return await self.answer_when_settled(written)
        return self.refuse(written)

    async def answer_when_settled(self, written: AppendResult) -> Sequence[Buffer]:
        """Waits for followers, and for a flush if the generation has changed since the append."""
        known = self.known
        code = await until_settled(
            self.partition, written.last_offset + 1, known.acks, known.timeout_ms, self.node.clock
        )
        if code is not ErrorCode.NONE:
            return self.refuse(Refusal(code))
        return response_with(known, written, self.correlation_id)


def is_plain(partition: Partition, topic_id: bytes | None) -> bool:
    """Returns whether requests to the partition need no wait for flushes, as in `fast_path`."""
    leadership = partition.leadership
    return (
        leadership.leader == partition.node_id
        and partition.never_waits_for_flushes
        and (topic_id is None or topic_id == partition.topic_id)
    )


def records_at(frame: memoryview, length_at: int, *, is_flexible: bool) -> memoryview | None:
    """Returns the records after their length; None if they are no batch or not the last field."""
    if is_flexible:
        length = frame[length_at]
        start = length_at + 1
        if length >= 0x80:
            try:
                length, start = read_uvarint(frame, length_at)
            except (IndexError, MalformedMessage):
                return None
        stop = start + length - 1
        if frame[stop:] != NO_TAGS:
            return None
    else:
        start, stop = length_at + _LENGTH.size, len(frame)
        if start > stop or _LENGTH.unpack_from(frame, length_at)[0] != stop - start:
            return None
    records = frame[start:stop]
    return records if len(records) > LOW_ATTRIBUTES_AT else None


def store(call: Call, route: Route, frame: memoryview, request: Message, response: Message) -> None:
    """Stores a request that the general path has served."""
    assert isinstance(request, ProduceRequest)
    assert isinstance(response, ProduceResponse)
    if call.version < SINCE_VERSION or request.transactional_id is not None:
        return
    if len(request.topic_data) != 1 or len(request.topic_data[0].partition_data) != 1:
        return
    [topic], [answered] = request.topic_data, response.responses
    [partition], [answer] = topic.partition_data, answered.partition_responses
    repeats = call.peer.repeats
    if not isinstance(repeats, Repeats):
        repeats = call.peer.repeats = Repeats(call.node, call.peer)
    if answer.error_code != ErrorCode.NONE or partition.records is None:
        return
    if repeats.renew(frame) or not repeats.may_store:
        return
    body_at = body_position(read_request_header(frame), frame, ProduceRequest)
    if encode(request, call.version) != frame[body_at:]:
        return  # unknown tagged fields, or not the shortest encoding
    length_at = position_of_length(frame, partition.records, is_flexible=route.is_flexible)
    topic_id = topic.topic_id if call.version >= TOPIC_IDS_SINCE_VERSION else None
    name = topic.name if topic_id is None else call.node.partitions.topic_name(topic_id)
    if length_at is None or length_at > KEY_BYTES_MAX or name is None:
        return
    led = call.node.partitions.get(name, partition.index)
    first_offset, time_ms, log_start_offset = MARKS
    marked = answer.replace(
        base_offset=first_offset, log_append_time_ms=time_ms, log_start_offset=log_start_offset
    )
    template = b"".join(route.write(response_of(name, topic_id, marked), 0))
    marks = _NUMBERS.pack(*MARKS)
    if led is not None and is_plain(led, topic_id) and template.count(marks) == 1:
        known = Known(
            call.node.generation.number,
            name,
            topic_id,
            partition.index,
            request.acks,
            request.timeout_ms,
            template,
            template.find(marks),
        )
        repeats.store(frame, length_at, route, known)


def position_of_length(frame: memoryview, records: Buffer, *, is_flexible: bool) -> int | None:
    """The position of the length of these records, if they are the last field of the frame."""
    stop = len(frame) - (len(NO_TAGS) if is_flexible else 0)
    width = len(uvarint(len(records) + 1)) if is_flexible else _LENGTH.size
    length_at = stop - len(records) - width
    found = records_at(frame, length_at, is_flexible=is_flexible)
    return length_at if found is not None and found == records else None


def response_of(
    topic: str, topic_id: bytes | None, answer: PartitionProduceResponse
) -> ProduceResponse:
    named = {"name": topic} if topic_id is None else {"topic_id": topic_id}
    return ProduceResponse(responses=[TopicProduceResponse(**named, partition_responses=[answer])])
