"""Fetch sessions (KIP-227): a reader sends its partitions once, then only changes.

A session stores the fetch position of each partition and the offsets of the last response. A
response within a session contains only partitions with records, changed offsets or errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.late_dataclass import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

    from pykbroker.partitions.partition import Partition
    from pykbroker_protocol.messages.fetch import FetchPartition, FetchRequest

T = TypeVar("T")
Steps: TypeAlias = "Generator[None, None, T]"
"""A generator that yields after each slice of a large request and returns the result."""
IsFull: TypeAlias = "Callable[[], bool]"
"""Counts an element of the request; returns True at the end of a slice."""

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
EPOCH_MAX = 2**31 - 1
EVICTION_AGE_MS = 120_000
"""A session used within this time is not evicted (a constant in Kafka)."""


class PartitionKey(NamedTuple):
    """A partition of a fetch request: by topic name or, since version 13, by topic id."""

    topic: str
    topic_id: bytes
    number: int


class Checked(NamedTuple):
    """Time and state of this broker at a fetch that checked all partitions of the session."""

    at: float
    generation: int
    broker_epoch: int


@dataclass(slots=True)
class SessionPartition:
    """The request for a partition and the offsets of the last response."""

    requested: FetchPartition
    high_watermark: int = -1
    log_start_offset: int = -1
    had_error: bool = True
    """True initially and after an error: the next response contains the partition."""
    at_rest: Partition | None = None
    """Set while a follower has all records and offsets of the partition."""


@dataclass(slots=True)
class FetchSession:
    session_id: int
    uses_topic_ids: bool
    is_follower: bool = False
    epoch: int = 1
    used_ms: int = 0
    partitions: dict[PartitionKey, SessionPartition] = field(default_factory=dict)
    checked: Checked | None = None
    """The last fetch of a follower that checked all partitions."""

    def update(self, request: FetchRequest, is_full: IsFull) -> Steps[None]:
        """Adds, updates and removes partitions as the request states."""
        yield from self.add(request, is_full)
        if request.session_epoch == INITIAL_EPOCH:
            return  # a new session has no partitions to remove
        for removed in request.forgotten_topics_data:
            for index in removed.partitions:
                if is_full():
                    yield
                self.partitions.pop(PartitionKey(removed.topic, removed.topic_id, index), None)

    def add(self, request: FetchRequest, is_full: IsFull) -> Steps[None]:
        for topic in request.topics:
            for requested in topic.partitions:
                if is_full():
                    yield
                key = PartitionKey(topic.topic, topic.topic_id, requested.partition)
                known = self.partitions.get(key)
                if known is None:
                    self.partitions[key] = SessionPartition(requested)
                else:
                    known.requested = requested
                    known.at_rest = None

    def move_to_end(self, served: list[PartitionKey]) -> None:
        """Moves partitions that returned records to the end, so that limits affect all equally."""
        for key in served:
            entry = self.partitions.pop(key, None)
            if entry is not None:
                self.partitions[key] = entry


class FetchSessions:
    """The sessions of a node, at most `slots_max`; new sessions evict idle ones.

    Followers always get a session: a new one evicts a session of a consumer, idle or not.
    """

    def __init__(self, slots_max: int, new_id: Callable[[], int]) -> None:
        self.slots_max = slots_max
        self.new_id = new_id
        self.sessions: dict[int, FetchSession] = {}

    def find(
        self, request: FetchRequest, *, uses_topic_ids: bool, is_follower: bool, now_ms: int
    ) -> SessionLookup:
        """Returns the session of a request, None for a fetch without session, or an error.

        The caller applies the partitions of the request with `FetchSession.update`.
        """
        if request.session_epoch == FINAL_EPOCH:
            self.sessions.pop(request.session_id, None)
            return None
        if request.session_epoch == INITIAL_EPOCH:
            self.sessions.pop(request.session_id, None)
            return self.open(uses_topic_ids=uses_topic_ids, is_follower=is_follower, now_ms=now_ms)
        return self.continue_session(request, uses_topic_ids=uses_topic_ids, now_ms=now_ms)

    def open(self, *, uses_topic_ids: bool, is_follower: bool, now_ms: int) -> FetchSession | None:
        if not self.evict_session(now_ms, for_follower=is_follower):
            return None
        session = FetchSession(self.unused_id(), uses_topic_ids, is_follower, used_ms=now_ms)
        self.sessions[session.session_id] = session
        return session

    def continue_session(
        self, request: FetchRequest, *, uses_topic_ids: bool, now_ms: int
    ) -> SessionLookup:
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

    def close_if_empty(self, session: FetchSession) -> FetchSession | None:
        """Returns the session, or closes it and returns None if it has no partitions."""
        if session.partitions:
            return session
        self.sessions.pop(session.session_id, None)
        return None

    def evict_session(self, now_ms: int, *, for_follower: bool) -> bool:
        """Returns True if there is a free slot, also after an eviction."""
        if len(self.sessions) < self.slots_max:
            return True
        oldest = self.least_recently_used(self.sessions.values())
        if oldest is None or now_ms - oldest.used_ms < EVICTION_AGE_MS:
            if not for_follower:
                return False
            consumers = (it for it in self.sessions.values() if not it.is_follower)
            oldest = self.least_recently_used(consumers)
        if oldest is None:
            return False
        del self.sessions[oldest.session_id]
        return True

    @staticmethod
    def least_recently_used(sessions: Iterable[FetchSession]) -> FetchSession | None:
        return min(sessions, key=lambda it: it.used_ms, default=None)

    def unused_id(self) -> int:
        while (session_id := self.new_id()) in self.sessions or session_id == NO_SESSION:
            pass
        return session_id


SessionLookup = FetchSession | Refusal | None


def by_topic(key: PartitionKey) -> tuple[str, bytes]:
    return key.topic, key.topic_id
