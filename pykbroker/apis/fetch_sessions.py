"""Fetch sessions (KIP-227): a reader sends its partitions once, then only changes.

A session stores the fetch position of each partition and the offsets of the last response. A
response within a session contains only partitions with records, changed offsets or errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias, TypeVar

from pykbroker_protocol.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

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


class SessionPartition:
    """The request for a partition and the offsets of the last response."""

    __slots__ = ("had_error", "high_watermark", "log_start_offset", "requested")

    def __init__(self, requested: FetchPartition) -> None:
        self.requested = requested
        self.high_watermark = -1
        self.log_start_offset = -1
        self.had_error = True
        """True initially and after an error: the next response contains the partition."""


class FetchSession:
    """The session of a consumer; `follower_session` has that of a follower."""

    __slots__ = ("epoch", "partitions", "session_id", "used_ms", "uses_topic_ids")

    is_follower = False

    def __init__(self, session_id: int, *, uses_topic_ids: bool, used_ms: int) -> None:
        self.session_id = session_id
        self.uses_topic_ids = uses_topic_ids
        self.used_ms = used_ms
        self.epoch = 1
        self.partitions: dict[PartitionKey, SessionPartition] = {}

    def update(self, request: FetchRequest, is_full: IsFull) -> Steps[None]:
        """Adds, updates and removes partitions as the request states."""
        yield from self.add(request, is_full)
        if request.session_epoch == INITIAL_EPOCH:
            return  # a new session has no partitions to remove
        for removed in request.forgotten_topics_data:
            for index in removed.partitions:
                if is_full():
                    yield
                self.remove(PartitionKey(removed.topic, removed.topic_id, index))

    def add(self, request: FetchRequest, is_full: IsFull) -> Steps[None]:
        for topic in request.topics:
            for requested in topic.partitions:
                if is_full():
                    yield
                key = PartitionKey(topic.topic, topic.topic_id, requested.partition)
                self.put(key, requested)

    def put(self, key: PartitionKey, requested: FetchPartition) -> None:
        known = self.partitions.get(key)
        if known is None:
            self.partitions[key] = SessionPartition(requested)
        else:
            known.requested = requested

    def remove(self, key: PartitionKey) -> None:
        self.partitions.pop(key, None)

    def close(self) -> None:
        """Is called when the session ends."""

    def move_to_end(self, served: list[PartitionKey]) -> None:
        """Moves partitions that returned records to the end, so that limits affect all equally."""
        for key in served:
            entry = self.partitions.pop(key, None)
            if entry is not None:
                self.partitions[key] = entry


class NewSession(Protocol):
    """The class of a session."""

    @property
    def is_follower(self) -> bool: ...
    def __call__(self, session_id: int, *, uses_topic_ids: bool, used_ms: int) -> FetchSession: ...


class FetchSessions:
    """The sessions of a node, at most `slots_max`; new sessions evict idle ones.

    Followers always get a session: a new one evicts a session of a consumer, idle or not.
    """

    def __init__(self, slots_max: int, new_id: Callable[[], int]) -> None:
        self.slots_max = slots_max
        self.new_id = new_id
        self.sessions: dict[int, FetchSession] = {}

    def find(
        self,
        request: FetchRequest,
        *,
        uses_topic_ids: bool,
        now_ms: int,
        new_session: NewSession = FetchSession,
    ) -> SessionLookup:
        """Returns the session of a request, None for a fetch without session, or an error.

        The caller applies the partitions of the request with `FetchSession.update`.
        """
        if request.session_epoch == FINAL_EPOCH:
            self.close(request.session_id)
            return None
        if request.session_epoch == INITIAL_EPOCH:
            self.close(request.session_id)
            if not self.evict_session(now_ms, for_follower=new_session.is_follower):
                return None
            session = new_session(self.unused_id(), uses_topic_ids=uses_topic_ids, used_ms=now_ms)
            self.sessions[session.session_id] = session
            return session
        return self.continue_session(request, uses_topic_ids=uses_topic_ids, now_ms=now_ms)

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
        self.close(session.session_id)
        return None

    def close(self, session_id: int) -> None:
        session = self.sessions.pop(session_id, None)
        if session is not None:
            session.close()

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
        self.close(oldest.session_id)
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
