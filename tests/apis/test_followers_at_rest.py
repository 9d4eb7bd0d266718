"""Fetch sessions of followers skip partitions at rest, and miss no change of them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from pykbroker.apis import follower_fetch
from pykbroker.partitions import reading
from pykbroker_protocol.errors import ErrorCode
from tests.apis.one_broker import TIMEOUT_SECONDS, answer_of
from tests.apis.replicated_partition import (
    FOLLOWER,
    LEADER,
    OTHER,
    Replicated,
    offsets_in,
    only,
    replicated,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WAIT_MS = 60_000


class Session:
    """A follower with a fetch session."""

    def __init__(self, replicated_partition: Replicated, replica: int = FOLLOWER) -> None:
        self._it = replicated_partition
        self._replica = replica
        self._id, self._epoch = 0, 0

    async def fetch(self, offset: int | None = None, **more: Any) -> Any:
        """Fetches; without an offset, the request names no partition."""
        given = {"session_id": self._id, "session_epoch": self._epoch, **more}
        if offset is None:
            given["topics"] = []
        response = await answer_of(self._it.fetch(offset or 0, replica=self._replica, **given))
        self._id, self._epoch = response.session_id or self._id, self._epoch + 1
        return response


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The offsets that fetches of followers read; partitions at rest are not read."""
    found: list[int] = []
    read = reading.read

    def recorded(partition: Any, offset: int, **more: Any) -> Any:
        found.append(offset)
        return read(partition, offset, **more)

    monkeypatch.setattr(follower_fetch, "read", recorded)
    return iter([found])


async def at_rest(it: Replicated) -> Session:
    """Returns a session that has fetched all records and the high watermark."""
    session = Session(it)
    await it.wrote(b"a")
    await session.fetch(0)
    row = only(await session.fetch(1))
    assert row.high_watermark == 1
    assert not (await session.fetch()).responses
    return session


async def test_partition_at_rest_is_not_read(tmp_path: Path, reads: Iterator[list[int]]) -> None:
    found = next(reads)
    async with replicated(tmp_path, in_sync=(LEADER, FOLLOWER)) as it:
        session = await at_rest(it)
        found.clear()
        assert not (await session.fetch()).responses
        assert found == []


async def test_waiting_fetch_returns_records_of_a_partition_at_rest(tmp_path: Path) -> None:
    async with replicated(tmp_path, in_sync=(LEADER, FOLLOWER)) as it:
        session = await at_rest(it)
        waiting = asyncio.ensure_future(session.fetch(max_wait_ms=WAIT_MS))
        await asyncio.sleep(0)
        assert not waiting.done()
        await it.wrote(b"b")
        row = only(await asyncio.wait_for(waiting, TIMEOUT_SECONDS))
        assert offsets_in(row) == [1]


async def test_records_appended_between_two_fetches_are_returned(tmp_path: Path) -> None:
    async with replicated(tmp_path, in_sync=(LEADER, FOLLOWER)) as it:
        session = await at_rest(it)
        await it.wrote(b"b")
        assert offsets_in(only(await session.fetch())) == [1]


async def test_high_watermark_is_returned_before_a_partition_rests(tmp_path: Path) -> None:
    async with replicated(tmp_path) as it:
        await it.wrote(b"a")
        session, other = Session(it), Session(it, OTHER)
        await session.fetch(0)
        assert not (await session.fetch(1)).responses  # the other follower has nothing yet
        await other.fetch(1)
        assert only(await session.fetch()).high_watermark == 1
        assert not (await session.fetch()).responses


async def test_leader_change_is_returned_for_a_partition_at_rest(tmp_path: Path) -> None:
    async with replicated(tmp_path, in_sync=(LEADER, FOLLOWER)) as it:
        session = await at_rest(it)
        it.lead(leader=FOLLOWER, leader_epoch=6)
        assert only(await session.fetch()).error_code == ErrorCode.FENCED_LEADER_EPOCH


async def test_log_start_offset_is_returned_for_a_partition_at_rest(tmp_path: Path) -> None:
    async with replicated(tmp_path, in_sync=(LEADER, FOLLOWER)) as it:
        session = await at_rest(it)
        it.partition.delete_records_before(1, 0)
        assert only(await session.fetch()).log_start_offset == 1


async def test_stale_broker_epoch_is_refused_for_a_partition_at_rest(tmp_path: Path) -> None:
    async with replicated(tmp_path, in_sync=(LEADER, FOLLOWER)) as it:
        session = await at_rest(it)
        response = await session.fetch(broker_epoch=19)
        assert only(response).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
