"""Requests of a fetch session have the changes since the last request (KIP-227)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.replication.follower_session import (
    EPOCH_MAX,
    FollowerSession,
    PartitionKey,
    Requested,
)
from pykbroker_protocol.errors import ErrorCode
from tests.replication.nodes import create, following, leading, produce, until
from tests.storage.batches import records_from

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

TOPIC_ID = b"t" * 16
FIRST: PartitionKey = (TOPIC_ID, 0)
SECOND: PartitionKey = (TOPIC_ID, 1)


def at(offset: int) -> Requested:
    return Requested(
        leader_epoch=1, offset=offset, last_fetched_epoch=1, log_start_offset=0, bytes_max=100
    )


def session_of(**offsets: int) -> FollowerSession:
    session = FollowerSession()
    for name, offset in offsets.items():
        session.set({"first": FIRST, "second": SECOND}[name], at(offset))
    return session


def test_the_first_request_has_all_partitions_and_the_next_only_changes() -> None:
    session = session_of(first=1, second=2)
    assert session.next_request() == (0, 0, {FIRST: at(1), SECOND: at(2)}, ())
    session.after_response(9)
    session.set(FIRST, at(1))
    session.set(SECOND, at(5))
    assert session.next_request() == (9, 1, {SECOND: at(5)}, ())
    session.after_response(9)
    assert session.next_request() == (9, 2, {}, ())


def test_a_discarded_partition_is_removed_once() -> None:
    session = session_of(first=1, second=2)
    session.next_request()
    session.after_response(9)
    session.discard(FIRST)
    assert session.next_request() == (9, 1, {}, (FIRST,))
    session.after_response(9)
    assert session.next_request() == (9, 2, {}, ())
    assert session.requested(FIRST) is None
    assert session.requested(SECOND) == at(2)


def test_a_partition_that_was_never_sent_is_not_removed() -> None:
    session = session_of(first=1)
    session.next_request()
    session.after_response(9)
    session.set(SECOND, at(2))
    session.discard(SECOND)
    assert session.next_request() == (9, 1, {}, ())


def test_without_a_session_each_request_has_all_partitions() -> None:
    session = session_of(first=1)
    for _ in range(3):
        assert session.next_request() == (0, 0, {FIRST: at(1)}, ())
        session.after_response(0)


def test_an_evicted_session_is_replaced() -> None:
    session = session_of(first=1)
    session.next_request()
    session.after_response(9)
    session.next_request()
    session.after_error(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    assert session.next_request() == (0, 0, {FIRST: at(1)}, ())


def test_other_errors_and_lost_responses_close_the_old_session() -> None:
    session = session_of(first=1)
    session.next_request()
    session.after_response(9)
    session.next_request()
    session.after_failure()
    assert session.next_request() == (9, 0, {FIRST: at(1)}, ())
    session.after_response(10)
    session.next_request()
    session.after_error(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
    assert session.next_request() == (10, 0, {FIRST: at(1)}, ())


def test_session_epochs_wrap_to_one() -> None:
    session = session_of(first=1)
    session.next_request()
    session.after_response(9)
    session._epoch = EPOCH_MAX
    assert session.next_request().epoch == EPOCH_MAX
    session.after_response(9)
    assert session.next_request().epoch == 1


async def test_a_session_with_our_broker_copies_all_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    next_request = FollowerSession.next_request

    def note(session: FollowerSession) -> object:
        request = next_request(session)
        sizes.append(len(request.partitions))
        return request

    monkeypatch.setattr(FollowerSession, "next_request", note)
    async with leading(tmp_path / "leader") as broker, following(tmp_path / "copy") as follower:
        await create(broker, "orders", partitions=20)
        follower.follow_broker(broker, "orders")
        await until(lambda: len(sizes) > 1)
        for index in range(20):
            led = broker.partitions.get("orders", index)
            assert led is not None
            produce(led, b"%d" % index)
            copy = follower.partition("orders", index)
            await until(lambda copy=copy: copy.high_watermark == 1)  # type: ignore[misc]
            assert records_from(copy.log, 0) == [(0, b"%d" % index)]
    assert sizes[0] == 20
    assert max(sizes[1:]) == 1
