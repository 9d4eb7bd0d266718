"""Fetch sessions: the partitions of a client and their updates."""

from __future__ import annotations

from itertools import count

from pykbroker.apis.fetch_sessions import (
    EVICTION_AGE_MS,
    FetchSession,
    FetchSessions,
    PartitionKey,
)
from pykbroker.apis.follower_session import FollowerSession
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)


def sessions(slots_max: int = 10) -> FetchSessions:
    numbers = count(1)
    return FetchSessions(slots_max, lambda: next(numbers))


def fetch(
    session_id: int, epoch: int, *indexes: int, offset: int = 0, forgotten: tuple[int, ...] = ()
) -> FetchRequest:
    partitions = [
        FetchPartition(partition=it, fetch_offset=offset, partition_max_bytes=1) for it in indexes
    ]
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        session_id=session_id,
        session_epoch=epoch,
        topics=[FetchTopic(topic="t", partitions=partitions)] if indexes else [],
        forgotten_topics_data=[ForgottenTopic(topic="t", partitions=forgotten)]
        if forgotten
        else [],
    )


def find(
    store: FetchSessions,
    request: FetchRequest,
    *,
    uses_topic_ids: bool = False,
    is_follower: bool = False,
    now_ms: int,
) -> object:
    found = store.find(
        request,
        uses_topic_ids=uses_topic_ids,
        now_ms=now_ms,
        new_session=FollowerSession if is_follower else FetchSession,
    )
    if not isinstance(found, FetchSession):
        return found
    assert not list(found.update(request, lambda: False))
    return store.close_if_empty(found)


def opened(store: FetchSessions, *indexes: int, now_ms: int = 0) -> FetchSession:
    session = find(store, fetch(0, 0, *indexes), uses_topic_ids=False, now_ms=now_ms)
    assert isinstance(session, FetchSession)
    return session


def refusal(found: object) -> ErrorCode:
    assert isinstance(found, Refusal)
    return found.code


def indexes_of(session: FetchSession) -> list[int]:
    return [key.number for key in session.partitions]


def test_a_sessionless_fetch_creates_no_session() -> None:
    assert find(sessions(), fetch(0, -1, 0), uses_topic_ids=False, now_ms=0) is None


def test_an_incremental_fetch_adds_updates_and_removes_partitions() -> None:
    store = sessions()
    session = opened(store, 0, 1)
    again = find(
        store,
        fetch(session.session_id, 1, 1, 2, offset=7, forgotten=(0,)),
        uses_topic_ids=False,
        now_ms=1,
    )
    assert again is session
    assert indexes_of(session) == [1, 2]
    assert session.partitions[PartitionKey("t", bytes(16), 1)].requested.fetch_offset == 7


def test_a_wrong_session_epoch_or_topic_naming_is_rejected() -> None:
    store = sessions()
    session = opened(store, 0)
    unknown = find(store, fetch(99, 1), uses_topic_ids=False, now_ms=0)
    early = find(store, fetch(session.session_id, 2), uses_topic_ids=False, now_ms=0)
    by_id = find(store, fetch(session.session_id, 1), uses_topic_ids=True, now_ms=0)
    assert refusal(unknown) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert refusal(early) == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert refusal(by_id) == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_a_final_epoch_closes_the_session() -> None:
    store = sessions()
    session = opened(store, 0)
    assert find(store, fetch(session.session_id, -1), uses_topic_ids=False, now_ms=0) is None
    assert not store.sessions


def test_a_full_cache_creates_no_session_until_one_is_idle() -> None:
    store = sessions(slots_max=1)
    opened(store, 0, now_ms=0)
    assert find(store, fetch(0, 0, 0), uses_topic_ids=False, now_ms=1) is None
    opened(store, 0, now_ms=EVICTION_AGE_MS)
    assert len(store.sessions) == 1


def test_a_follower_evicts_the_session_of_a_consumer() -> None:
    store = sessions(slots_max=2)
    kept = opened(store, 0, now_ms=1)
    opened(store, 0, now_ms=0)
    first = find(store, fetch(0, 0, 0), is_follower=True, now_ms=2)
    assert list(store.sessions.values()) == [kept, first]
    second = find(store, fetch(0, 0, 0), is_follower=True, now_ms=3)
    assert list(store.sessions.values()) == [first, second]
    assert find(store, fetch(0, 0, 0), is_follower=True, now_ms=4) is None


def test_a_consumer_evicts_no_session_of_a_follower_in_use() -> None:
    store = sessions(slots_max=1)
    used = find(store, fetch(0, 0, 0), is_follower=True, now_ms=0)
    assert find(store, fetch(0, 0, 0), now_ms=EVICTION_AGE_MS - 1) is None
    assert list(store.sessions.values()) == [used]


def test_partitions_that_returned_records_move_to_the_end() -> None:
    session = opened(sessions(), 0, 1, 2)
    session.move_to_end([PartitionKey("t", bytes(16), 0)])
    assert indexes_of(session) == [1, 2, 0]
