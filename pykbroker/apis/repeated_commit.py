"""The fast path of OffsetCommit: a request that differs from an earlier one only in its offsets.

The connection keeps the bytes of the request without its offsets, the batch that the coordinator
appended, and the response. `fast_path` lists the checks that are not repeated.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from pykbroker.apis.fast_path import REQUESTS_MAX
from pykbroker.apis.offset_commit import named
from pykbroker.coordinators.repeated_commit import (
    NUMBER,
    commit_again,
    mark,
    may_repeat,
    positions_of_markers,
    template_of,
)
from pykbroker_protocol.compiler import encode
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.frame import body_position, read_request_header
from pykbroker_protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pykbroker.apis.fast_path import Route
    from pykbroker.apis.node import Call, Node
    from pykbroker.coordinators.repeated_commit import RepeatedCommit
    from pykbroker_protocol.compiler import Buffer
    from pykbroker_protocol.message import Message

REQUEST_CORRELATION_ID = slice(4, 8)
RESPONSE_CORRELATION_ID = slice(4)
FRAME_BYTES_MAX = 1024
"""About fifty partitions; longer commits gain little."""
KEPT_BYTES_MAX = 4096
"""Bound of all frames that a connection stores; their other values take thirty times as much."""
REPEATS_PER_REQUEST = 16
"""Repeats that must be served before one more request is stored: consumers run long, and the
generation of their group changes."""


class Known(NamedTuple):
    generation: int
    """The generation in which the general path served the request last."""
    rest: bytes
    """The frame with zeros in place of correlation id and offsets."""
    offsets_at: Sequence[int]
    topics: Sequence[tuple[str, bytes]]
    """Names and ids, also of topics without a committed partition."""
    commit: RepeatedCommit
    answer: bytes


class Repeats:
    """The OffsetCommit requests that a connection has sent before, one per frame length."""

    __slots__ = ("_answered_count", "_examined_count", "_known", "_node")

    def __init__(self, node: Node) -> None:
        self._node = node
        self._known: dict[int, Known] = {}
        self._examined_count = 0
        self._answered_count = 0

    def may_examine(self) -> bool:
        """Returns whether one more request can be examined; rejected requests count, too."""
        self._examined_count += 1
        return self._examined_count <= REQUESTS_MAX

    def renew(self, frame: memoryview, topics: Sequence[tuple[str, bytes]]) -> bool:
        """Returns whether the request is known; then makes it valid in the present generation."""
        known = self._known.get(len(frame))
        if known is None or known.topics != topics:
            return False
        if without_numbers(frame, known.offsets_at) != known.rest:
            return False
        log = self._node.groups.find(known.commit.request.group_id)
        if isinstance(log, ErrorCode) or not may_repeat(log, known.commit):
            return False
        renewed = known._replace(generation=self._node.generation.number)
        self._known[len(frame)] = renewed
        return True

    def store(self, frame: memoryview, known: Known) -> None:
        self._known.pop(len(frame), None)
        self._known[len(frame)] = known
        while sum(self._known) > KEPT_BYTES_MAX:
            del self._known[next(iter(self._known))]

    def answer(self, frame: memoryview) -> Sequence[Buffer] | None:
        """The response; None, without side effects, if the general path must serve the request."""
        known = self._known.get(len(frame))
        node = self._node
        if known is None or known.generation != node.generation.number:
            return None
        offsets = [NUMBER.unpack_from(frame, at)[0] for at in known.offsets_at]
        if without_numbers(frame, known.offsets_at) != known.rest:
            return None
        log = node.groups.find(known.commit.request.group_id)
        if isinstance(log, ErrorCode):
            return None
        if not commit_again(log, known.commit, offsets, node.clock.now_ms()):
            return None
        self._answered_count += 1
        if self._answered_count == REPEATS_PER_REQUEST:
            self._answered_count, self._examined_count = 0, max(0, self._examined_count - 1)
        response = bytearray(known.answer)
        response[RESPONSE_CORRELATION_ID] = frame[REQUEST_CORRELATION_ID]
        return [response]


def without_numbers(frame: Buffer, offsets_at: Sequence[int]) -> bytearray:
    rest = bytearray(frame)
    rest[REQUEST_CORRELATION_ID] = bytes(4)
    for at in offsets_at:
        NUMBER.pack_into(rest, at, 0)
    return rest


def store(call: Call, route: Route, frame: memoryview, request: Message, response: Message) -> None:
    """Stores a request that the general path has served."""
    assert isinstance(request, OffsetCommitRequest)
    assert isinstance(response, OffsetCommitResponse)
    repeats = call.peer.repeats
    if repeats is None:
        repeats = call.peer.repeats = Repeats(call.node)
    if not isinstance(repeats, Repeats) or len(frame) > FRAME_BYTES_MAX:
        return
    codes = [it.error_code for topic in response.topics for it in topic.partitions]
    if not codes or set(codes) != {ErrorCode.NONE}:
        return
    names = [(it.name, it.topic_id) for it in (named(topic, call) for topic in request.topics)]
    if repeats.renew(frame, names) or not repeats.may_examine():
        return
    body_at = body_position(read_request_header(frame), frame, OffsetCommitRequest)
    if encode(request, call.version) != frame[body_at:]:
        return  # not the shortest encoding
    marked = with_marks(request)
    offsets_at = positions_of_markers(len(codes), encode(marked, call.version))
    if offsets_at is None:
        return
    in_frame = [body_at + position for position in offsets_at]
    topics = [named(topic, call) for topic in marked.topics]
    log = call.node.groups.find(request.group_id)
    if isinstance(log, ErrorCode):
        commit = None
    else:
        commit = template_of(log, marked.replace(topics=topics), call.version)
    if commit is None:
        return
    known = Known(
        generation=call.node.generation.number,
        rest=bytes(without_numbers(frame, in_frame)),
        offsets_at=in_frame,
        topics=names,
        commit=commit,
        answer=b"".join(route.write(response, 0)),
    )
    repeats.store(frame, known)


def with_marks(request: OffsetCommitRequest) -> OffsetCommitRequest:
    """The request with a different marker in place of each offset."""
    marks = map(mark, count())
    return request.replace(
        topics=[
            topic.replace(
                partitions=[it.replace(committed_offset=next(marks)) for it in topic.partitions]
            )
            for topic in request.topics
        ]
    )
