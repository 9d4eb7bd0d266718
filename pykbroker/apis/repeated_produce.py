"""A Produce request that differs from an earlier one of its connection by its records alone.

Most do: a producer goes on writing to the partitions that it wrote to. What was found out about all
that surrounds the records is kept with the connection, and the answer, too, but for its numbers.
Whether the records enter the log the partition decides, each time anew. Whatever is out of the
ordinary goes the general way, and is not begun here.
"""

from __future__ import annotations

import asyncio
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pykbroker.apis.answers import Deferred, Waiting
from pykbroker.apis.joining_transactions import (
    LOW_ATTRIBUTES_AT,
    TOPIC_IDS_SINCE_VERSION,
)
from pykbroker.apis.produce import ALL, refused
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
    from collections.abc import Callable, Sequence

    from pykbroker.apis.node import Call, Node
    from pykbroker.partitions.admission import RecordsRefused
    from pykbroker.partitions.partition import Appending, Partition
    from pykbroker_protocol.compiler import Buffer
    from pykbroker_protocol.message import Message

_HEAD = Struct(">ii")
"""The API, which is 0, and the version, taken as one number; the correlation id."""
_CORRELATION = Struct(">i")
_LENGTH = Struct(">i")
_NUMBERS = Struct(">qqq")
"""First offset, append time and start of the log, as they stand side by side in an answer."""
SINCE_VERSION = 5
"""Before, an answer does not tell the start of the log."""
MARKS = (0x7A11_0FF5_E700_0001, 0x7A11_0FF5_E700_0002, 0x7A11_0FF5_E700_0003)
NO_TAGS = b"\0\0\0"
"""Behind the records, in flexible versions: of the partition, the topic and the request."""
KEY_BYTES_MAX = 1024
"""More than this before the records is a strange request, and not worth the memory."""
KNOWN_MAX = 64
"""So often a connection learns in its life: to learn what does not come again is wasted."""


class Route(Protocol):
    """How requests of one version are read and answered."""

    @property
    def is_flexible(self) -> bool: ...
    @property
    def write(self) -> Callable[[Message, int], Sequence[Buffer]]: ...


class Known(NamedTuple):
    """Where the records of such a request go, and what is answered."""

    topic: str
    topic_id: bytes | None
    partition: int
    acks: int
    answer: bytes
    numbers_at: int


class Repeats:
    """What a connection has asked before. All up to the length of the records is one run of bytes.

    A request in another version, or with its records at another place, has all this forgotten
    when it is answered.
    """

    __slots__ = ("_kind", "_known", "_learned", "_length_at", "_node", "_route")

    def __init__(self, node: Node) -> None:
        self._node = node
        self._route: Route | None = None
        self._kind = self._length_at = -1
        self._known: dict[bytes, Known] = {}
        self._learned = 0

    @property
    def may_learn(self) -> bool:
        return self._learned < KNOWN_MAX

    def learn(self, frame: memoryview, length_at: int, route: Route, known: Known) -> None:
        self._learned += 1
        kind, _ = _HEAD.unpack_from(frame)
        if (kind, length_at) != (self._kind, self._length_at):
            self._kind, self._length_at, self._route = kind, length_at, route
            self._known = {}
        self._known[bytes(frame[_HEAD.size : length_at])] = known

    def answer(self, frame: memoryview) -> Sequence[Buffer] | Waiting | None:
        """What to answer; None if this is another request, and nothing is done yet."""
        length_at, route = self._length_at, self._route
        if route is None or len(frame) <= length_at:
            return None
        kind, correlation_id = _HEAD.unpack_from(frame)
        if kind != self._kind:
            return None
        known = self._known.get(bytes(frame[8:length_at]))  # behind the head
        if known is None:
            return None
        partition = self._node.partitions.get(known.topic, known.partition)
        acks = known.acks
        records = records_at(frame, length_at, is_flexible=route.is_flexible)
        if (
            partition is None
            or records is None
            or not is_plain(partition, known.topic_id, acks, records)
        ):
            return None
        written = partition.append(
            records,
            required_acks=acks,
            produce_version=kind,
            now_ms=self._node.clock.now_ms(),
        )
        if isinstance(written, asyncio.Task):
            later = partial(answer_when_appended, known, partition, route, correlation_id)
            return Waiting(Deferred(written, later), pipelined=False)
        return answer_of(written, known, partition, route, correlation_id)


def answer_of(
    written: AppendResult | Refusal | RecordsRefused,
    known: Known,
    partition: Partition,
    route: Route,
    correlation_id: int,
) -> Sequence[Buffer]:
    if not isinstance(written, AppendResult):
        said = refused(known.partition, written, partition.log.log_start_offset)
        return route.write(response_of(known.topic, known.topic_id, said), correlation_id)
    told = bytearray(known.answer)
    _CORRELATION.pack_into(told, 0, correlation_id)
    first_offset, _, time_ms, log_start_offset = written
    _NUMBERS.pack_into(told, known.numbers_at, first_offset, time_ms, log_start_offset)
    return [told]


async def answer_when_appended(
    known: Known, partition: Partition, route: Route, correlation_id: int, appending: Appending
) -> Sequence[Buffer]:
    """The records are written even if the client goes away meanwhile."""
    written = await asyncio.shield(appending)
    return answer_of(written, known, partition, route, correlation_id)


def is_plain(partition: Partition, topic_id: bytes | None, acks: int, records: memoryview) -> bool:
    """Led here, no replica, flush or coordinator to wait for, and the topic is the same one."""
    leadership = partition.leadership
    return (
        leadership.leader == partition.node_id
        and (acks != ALL or len(leadership.replicas) == 1)
        and partition.never_waits_for_flushes
        and (topic_id is None or topic_id == partition.topic_id)
        and not records[LOW_ATTRIBUTES_AT] & TRANSACTIONAL_FLAG
    )


def records_at(frame: memoryview, length_at: int, *, is_flexible: bool) -> memoryview | None:
    """The records, as long as is told there; None if they are no batch or not the last."""
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


def learn(call: Call, route: Route, frame: memoryview, request: Message, response: Message) -> None:
    """A request was answered the general way: those like it need not go it."""
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
        repeats = call.peer.repeats = Repeats(call.node)
    if not repeats.may_learn or answer.error_code != ErrorCode.NONE or partition.records is None:
        return
    body_at = body_position(read_request_header(frame), frame, ProduceRequest)
    if encode(request, call.version) != frame[body_at:]:
        return  # it held something that we do not know, or said it in more bytes than need be
    length_at = place_of_length(frame, partition.records, is_flexible=route.is_flexible)
    topic_id = topic.topic_id if call.version >= TOPIC_IDS_SINCE_VERSION else None
    name = topic.name if topic_id is None else call.node.partitions.topic_name(topic_id)
    if length_at is None or length_at > KEY_BYTES_MAX or name is None:
        return
    first_offset, time_ms, log_start_offset = MARKS
    marked = answer.replace(
        base_offset=first_offset, log_append_time_ms=time_ms, log_start_offset=log_start_offset
    )
    template = b"".join(route.write(response_of(name, topic_id, marked), 0))
    marks = _NUMBERS.pack(*MARKS)
    if template.count(marks) == 1:
        known = Known(name, topic_id, partition.index, request.acks, template, template.find(marks))
        repeats.learn(frame, length_at, route, known)


def place_of_length(frame: memoryview, records: Buffer, *, is_flexible: bool) -> int | None:
    """Where the length of these records stands, if they are the last in the frame."""
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
