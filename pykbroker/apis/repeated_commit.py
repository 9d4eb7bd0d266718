"""An OffsetCommit that differs from an earlier one of its connection by its offsets alone.

So are those of a consumer that commits as it goes on. What was found out about all else is kept
with the connection, and the answer, too. Whether the group takes the commit it decides each time
anew. Whatever is out of the ordinary goes the general way, and is not begun here.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from pykbroker.apis.offset_commit import named
from pykbroker.coordinators.repeated_commit import (
    NUMBER,
    commit_again,
    mark,
    places_of_marks,
    template_of,
)
from pykbroker_protocol.compiler import encode
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.frame import body_position, read_request_header
from pykbroker_protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pykbroker.apis.node import Call, Node
    from pykbroker.apis.repeated_produce import Route
    from pykbroker.coordinators.repeated_commit import RepeatedCommit
    from pykbroker_protocol.compiler import Buffer
    from pykbroker_protocol.message import Message

ASKED = slice(4, 8)
"""Where a request has its correlation id, behind the API and its version."""
ANSWERED = slice(4)
"""Where an answer has it."""
FRAME_BYTES_MAX = 1024
"""Some fifty partitions; a longer commit spends its time on them anyway."""
KEPT_BYTES_MAX = 4096
"""Of frames that a connection keeps; what is made of each takes nearly thirty times as much."""
KNOWN_MAX = 64
"""So often a connection learns, or tries: what does not come again is wasted."""
ANSWERS_FOR_A_TRY = 16
"""What does come again pays for the next: consumers live long, and their generations change."""


class Known(NamedTuple):
    rest: bytes
    """The frame with nothing where correlation id and offsets stand."""
    offsets_at: Sequence[int]
    topics: Sequence[tuple[str, bytes]]
    """Names and ids: partitions of a topic do not go while it is the same one.

    Also of those of which no partition is committed: a member that lags may not name what is gone.
    """
    commit: RepeatedCommit
    answer: bytes


class Repeats:
    """What a connection has committed before: one for each length of a frame, the latest ones."""

    __slots__ = ("_answered", "_known", "_node", "_tries")

    def __init__(self, node: Node) -> None:
        self._node = node
        self._known: dict[int, Known] = {}
        self._tries = 0
        self._answered = 0

    def may_try(self) -> bool:
        """Whether one more commit may be looked at, even if nothing comes of it."""
        self._tries += 1
        return self._tries <= KNOWN_MAX

    def learn(self, frame: memoryview, known: Known) -> None:
        self._known.pop(len(frame), None)
        self._known[len(frame)] = known
        while sum(self._known) > KEPT_BYTES_MAX:
            del self._known[next(iter(self._known))]

    def answer(self, frame: memoryview) -> Sequence[Buffer] | None:
        """What to answer; None if this is another request, and nothing is done yet."""
        known = self._known.get(len(frame))
        if known is None:
            return None
        offsets = [NUMBER.unpack_from(frame, at)[0] for at in known.offsets_at]
        if without_numbers(frame, known.offsets_at) != known.rest:
            return None
        node = self._node
        topics = node.image.topics
        for name, topic_id in known.topics:
            found = topics.get(name)
            if found is None or found.id != topic_id:
                return None
        log = node.groups.find(known.commit.request.group_id)
        if isinstance(log, ErrorCode):
            return None
        if not commit_again(log, known.commit, offsets, node.clock.now_ms()):
            return None
        self._answered += 1
        if self._answered == ANSWERS_FOR_A_TRY:
            self._answered, self._tries = 0, max(0, self._tries - 1)
        told = bytearray(known.answer)
        told[ANSWERED] = frame[ASKED]
        return [told]


def without_numbers(frame: Buffer, offsets_at: Sequence[int]) -> bytearray:
    rest = bytearray(frame)
    rest[ASKED] = bytes(4)
    for at in offsets_at:
        NUMBER.pack_into(rest, at, 0)
    return rest


def learn(call: Call, route: Route, frame: memoryview, request: Message, response: Message) -> None:
    """A request was answered the general way: those like it need not go it."""
    assert isinstance(request, OffsetCommitRequest)
    assert isinstance(response, OffsetCommitResponse)
    repeats = call.peer.repeats
    if repeats is None:
        repeats = call.peer.repeats = Repeats(call.node)
    if not isinstance(repeats, Repeats) or len(frame) > FRAME_BYTES_MAX:
        return
    codes = [it.error_code for topic in response.topics for it in topic.partitions]
    if not codes or set(codes) != {ErrorCode.NONE} or not repeats.may_try():
        return
    body_at = body_position(read_request_header(frame), frame, OffsetCommitRequest)
    if encode(request, call.version) != frame[body_at:]:
        return  # it said something in more bytes than need be
    marked = with_marks(request)
    offsets_at = places_of_marks(len(codes), encode(marked, call.version))
    if offsets_at is None:
        return
    in_frame = [body_at + place for place in offsets_at]
    topics = [named(topic, call) for topic in marked.topics]
    log = call.node.groups.find(request.group_id)
    if isinstance(log, ErrorCode):
        return
    commit = template_of(log, marked.replace(topics=topics), call.version)
    if commit is None:
        return
    known = Known(
        rest=bytes(without_numbers(frame, in_frame)),
        offsets_at=in_frame,
        topics=[(it.name, it.topic_id) for it in topics],
        commit=commit,
        answer=b"".join(route.write(response, 0)),
    )
    repeats.learn(frame, known)


def with_marks(request: OffsetCommitRequest) -> OffsetCommitRequest:
    """Each offset is another number that nobody commits."""
    marks = map(mark, count())
    return request.replace(
        topics=[
            topic.replace(
                partitions=[it.replace(committed_offset=next(marks)) for it in topic.partitions]
            )
            for topic in request.topics
        ]
    )
