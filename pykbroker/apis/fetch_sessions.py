"""Fetch sessions (KIP-227): a consumer names its partitions once, then only what changes.

A session remembers, for each partition, where the reader is and what it was last told. An answer
within a session leaves out every partition that has nothing new to say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.late_dataclass import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from pykbroker_protocol.messages.fetch import FetchPartition, FetchRequest

T = TypeVar("T")
Steps: TypeAlias = "Generator[None, None, T]"
"""Yields after each slice of a large request and returns the result."""
IsFull: TypeAlias = "Callable[[], bool]"
"""Counts an element of the request; whether its slice is full."""

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
EPOCH_MAX = 2**31 - 1
EVICTION_AGE_MS = 120_000
"""A session that was used within this time keeps its place (Kafka's fixed default)."""


class WantedPartition(NamedTuple):
    """One partition of a fetch, by name in old versions and by id in new ones."""

    topic: str
    topic_id: bytes
    number: int


@dataclass(slots=True)
class SessionPartition:
    """What a reader asked of a partition, and what it was last told of it."""

    asked: FetchPartition
    high_watermark: int = -1
    log_start_offset: int = -1
    had_error: bool = True
    """Also true at first: an error must be followed by a full answer, and so must the first."""


@dataclass(slots=True)
class FetchSession:
    session_id: int
    uses_topic_ids: bool
    epoch: int = 1
    used_ms: int = 0
    partitions: dict[WantedPartition, SessionPartition] = field(default_factory=dict)

    def update(self, request: FetchRequest, is_full: IsFull) -> Steps[None]:
        """Take over what the request adds, changes and forgets."""
        yield from self.add(request, is_full)
        if request.session_epoch == INITIAL_EPOCH:
            return  # a new one has nothing to forget
        for forgotten in request.forgotten_topics_data:
            for index in forgotten.partitions:
                if is_full():
                    yield
                self.partitions.pop(
                    WantedPartition(forgotten.topic, forgotten.topic_id, index), None
                )

    def add(self, request: FetchRequest, is_full: IsFull) -> Steps[None]:
        for topic in request.topics:
            for asked in topic.partitions:
                if is_full():
                    yield
                wanted = WantedPartition(topic.topic, topic.topic_id, asked.partition)
                known = self.partitions.get(wanted)
                if known is None:
                    self.partitions[wanted] = SessionPartition(asked)
                else:
                    known.asked = asked

    def put_last(self, served: list[WantedPartition]) -> None:
        """Who got records goes behind the others, so that the first-batch rule is fair."""
        for wanted in served:
            entry = self.partitions.pop(wanted, None)
            if entry is not None:
                self.partitions[wanted] = entry


class FetchSessions:
    """The sessions of a node, bounded; idle ones give way to new ones."""

    def __init__(self, slots_max: int, new_id: Callable[[], int]) -> None:
        self.slots_max = slots_max
        self.new_id = new_id
        self.sessions: dict[int, FetchSession] = {}

    def find(self, request: FetchRequest, *, uses_topic_ids: bool, now_ms: int) -> Found:
        """The session a request belongs to, None for a fetch without one, or a refusal.

        What the request adds and forgets is still to be taken over: see `FetchSession.update`.
        """
        if request.session_epoch == FINAL_EPOCH:
            self.sessions.pop(request.session_id, None)
            return None
        if request.session_epoch == INITIAL_EPOCH:
            self.sessions.pop(request.session_id, None)
            return self.open(uses_topic_ids=uses_topic_ids, now_ms=now_ms)
        return self.go_on(request, uses_topic_ids=uses_topic_ids, now_ms=now_ms)

    def open(self, *, uses_topic_ids: bool, now_ms: int) -> FetchSession | None:
        if not self.make_room(now_ms):
            return None
        session = FetchSession(self.unused_id(), uses_topic_ids, used_ms=now_ms)
        self.sessions[session.session_id] = session
        return session

    def go_on(self, request: FetchRequest, *, uses_topic_ids: bool, now_ms: int) -> Found:
        session = self.sessions.get(request.session_id)
        if session is None:
            return Refusal(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.session_epoch:
            return Refusal(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != uses_topic_ids:
            return Refusal(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.epoch = 1 if session.epoch == EPOCH_MAX else session.epoch + 1
        session.used_ms = now_ms
        return session

    def unless_empty(self, session: FetchSession) -> FetchSession | None:
        """None, and the session ends, if it has no partitions left."""
        if session.partitions:
            return session
        self.sessions.pop(session.session_id, None)
        return None

    def make_room(self, now_ms: int) -> bool:
        if len(self.sessions) < self.slots_max:
            return True
        oldest = min(self.sessions.values(), key=lambda it: it.used_ms, default=None)
        if oldest is None or now_ms - oldest.used_ms < EVICTION_AGE_MS:
            return False
        del self.sessions[oldest.session_id]
        return True

    def unused_id(self) -> int:
        while (session_id := self.new_id()) in self.sessions or session_id == NO_SESSION:
            pass
        return session_id


Found = FetchSession | Refusal | None


def by_topic(wanted: WantedPartition) -> tuple[str, bytes]:
    return wanted.topic, wanted.topic_id
