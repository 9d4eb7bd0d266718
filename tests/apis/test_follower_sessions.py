"""Fetch sessions of followers: they read changed partitions only, and miss no change."""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest

from pykbroker.apis.follower_session import FULL_LOOK_SECONDS, FollowerSession
from pykbroker.controller_access import NewTopic
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from pykbroker_protocol.records.batch import iterate_batches
from pykbroker_storage.filesystem import VolatileDisk
from pykbroker_storage.log import AppendResult
from tests.apis.one_broker import TIMEOUT_SECONDS, Client, NoUpkeep, answer_of, broker_on
from tests.apis.replicated_partition import (
    EPOCHS,
    FOLLOWER,
    LEADER,
    OTHER,
    broker_image,
)
from tests.apis.request_builders import batch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from pykbroker.broker import Broker
    from pykbroker.partitions.partition import Partition

VERSION = 18
HOUR_MS = 3_600_000
NOW_MS = 1_700_000_000_000


class ShiftedClock(NoUpkeep):
    """A clock that a test moves forward."""

    __slots__ = ("shift",)

    def __init__(self) -> None:
        self.shift = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.shift


@dataclass
class Copy:
    """The knowledge of a follower about a partition."""

    end: int = 0
    high_watermark: int = -1
    log_start: int = 0

    def apply(self, row: PartitionData) -> None:
        assert row.error_code == ErrorCode.NONE
        for it in iterate_batches(memoryview(row.records or b"")):
            assert it.base_offset == self.end
            self.end = it.last_offset + 1
        self.high_watermark, self.log_start = row.high_watermark, row.log_start_offset


@dataclass
class Fetcher:
    """A follower with a fetch session, which sends positions only when they change."""

    leaders: Leaders
    replica: int
    copies: list[Copy]
    session_id: int = 0
    epoch: int = 0
    sent: dict[int, tuple[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.client = Client(self.leaders.broker)

    @property
    def session(self) -> FollowerSession:
        session = self.leaders.broker.node.fetch_sessions.sessions[self.session_id]
        assert isinstance(session, FollowerSession)
        return session

    def request(self, max_wait_ms: int) -> FetchRequest:
        rows = []
        for index, copy in enumerate(self.copies):
            if self.sent.get(index) != (copy.end, copy.log_start):
                self.sent[index] = copy.end, copy.log_start
                rows.append(
                    FetchPartition(
                        partition=index,
                        fetch_offset=copy.end,
                        log_start_offset=copy.log_start,
                        partition_max_bytes=1 << 20,
                        current_leader_epoch=5,
                    )
                )
        topic = FetchTopic(topic_id=self.leaders.topic_id, partitions=rows)
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=10 << 20,
            session_id=self.session_id,
            session_epoch=self.epoch,
            replica_state=ReplicaState(replica_id=self.replica, replica_epoch=EPOCHS[self.replica]),
            topics=[topic] if rows else [],
        )
        self.epoch += 1
        return request

    async def fetch(self, max_wait_ms: int = 0) -> list[PartitionData]:
        return self.received(await answer_of(self.client.ask(self.request(max_wait_ms), VERSION)))

    def started(self) -> asyncio.Task[list[PartitionData]]:
        return asyncio.create_task(self.fetch(HOUR_MS))

    def received(self, response: Any) -> list[PartitionData]:
        assert response.error_code == ErrorCode.NONE
        self.session_id = response.session_id
        rows = [row for topic in response.responses for row in topic.partitions]
        for row in rows:
            if row.error_code == ErrorCode.NONE:
                self.copies[row.partition_index].apply(row)
        return rows


@dataclass
class Leaders:
    """A topic that this broker leads, with two followers."""

    broker: Broker
    partitions: list[Partition]
    clock: ShiftedClock
    proposals: list[Any] = field(default_factory=list)

    @property
    def topic_id(self) -> bytes:
        return self.partitions[0].topic_id

    def append(self, index: int) -> None:
        written = self.partitions[index].leader.append(
            memoryview(bytearray(batch())), required_acks=1, produce_version=9, now_ms=NOW_MS
        )
        assert isinstance(written, AppendResult)

    def fetcher(self, replica: int = FOLLOWER) -> Fetcher:
        return Fetcher(self, replica, [Copy() for _ in self.partitions])


@asynccontextmanager
async def leaders(directory: Path, count: int = 3) -> AsyncIterator[Leaders]:
    async with broker_on(VolatileDisk(), directory) as broker, asyncio.timeout(TIMEOUT_SECONDS):
        await broker.controller.create_topics(
            [NewTopic(name="orders", partitions=count, replication_factor=1)]
        )
        clock = ShiftedClock()
        broker.node.clock = clock
        context = broker.partitions.leader_context
        context.clock = clock
        context.brokers = {it: broker_image(it, epoch) for it, epoch in EPOCHS.items()}
        found = [it for it in broker.partitions if it.topic == "orders"]
        it = Leaders(broker, sorted(found, key=lambda it: it.index), clock)
        context.propose = lambda *pair: it.proposals.append(pair)
        for partition in it.partitions:
            lead(partition, replicas=(LEADER, FOLLOWER, OTHER), in_sync=(LEADER, FOLLOWER, OTHER))
        yield it


def lead(partition: Partition, **changes: Any) -> None:
    before = partition.leadership
    changed = {"leader_epoch": 5, "partition_epoch": before.partition_epoch + 1, **changes}
    partition.lead_or_follow(replace(before, **changed))


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_partitions_without_changes_are_not_read(tmp_path: Path) -> None:
    async with leaders(tmp_path) as it:
        fetcher = it.fetcher()
        assert len(await fetcher.fetch()) == 3
        assert await fetcher.fetch() == []
        assert list(fetcher.session.changed) == []
        it.append(1)
        assert [key.number for key in fetcher.session.changed] == [1]
        assert [row.partition_index for row in await fetcher.fetch()] == [1]


async def test_waiting_fetch_returns_only_the_appended_partition(tmp_path: Path) -> None:
    async with leaders(tmp_path) as it:
        fetcher = it.fetcher()
        await fetcher.fetch()
        waiting = fetcher.started()
        await turns()
        it.append(2)
        assert [row.partition_index for row in await waiting] == [2]
        assert fetcher.copies[2].end == 1


async def test_append_between_read_and_wait_ends_the_wait(tmp_path: Path) -> None:
    async with leaders(tmp_path) as it:
        fetcher = it.fetcher()
        await fetcher.fetch()
        answer = fetcher.client.ask(fetcher.request(HOUR_MS), VERSION)
        it.append(2)
        assert [row.partition_index for row in fetcher.received(await answer)] == [2]


async def test_records_are_sent_again_until_the_follower_has_them(tmp_path: Path) -> None:
    async with leaders(tmp_path) as it:
        fetcher = it.fetcher()
        await fetcher.fetch()
        it.append(0)
        for _ in range(3):
            (row,) = await fetcher.fetch()
            assert row.records
            fetcher.copies[0].end = 0  # the follower could not append
            fetcher.sent[0] = (0, 0)


async def test_high_watermark_alone_does_not_end_a_wait(tmp_path: Path) -> None:
    async with leaders(tmp_path, count=1) as it:
        one, two = it.fetcher(), it.fetcher(OTHER)
        it.append(0)
        for fetcher in (one, two):
            await fetcher.fetch()
        await one.fetch()
        waiting = one.started()
        await turns()
        await two.fetch()
        assert it.partitions[0].high_watermark == 1
        await turns()
        assert not waiting.done()
        it.append(0)
        await waiting
        assert (one.copies[0].high_watermark, one.copies[0].end) == (1, 2)


async def test_waiting_session_learns_at_once_that_leadership_moves(tmp_path: Path) -> None:
    async with leaders(tmp_path) as it:
        fetcher = it.fetcher()
        await fetcher.fetch()
        waiting = fetcher.started()
        await turns()
        lead(it.partitions[1], leader=OTHER, leader_epoch=6)
        (row,) = await waiting
        assert (row.partition_index, row.error_code) == (1, ErrorCode.FENCED_LEADER_EPOCH)
        (row,) = await fetcher.fetch(HOUR_MS)  # until the follower stops to ask for it
        assert row.error_code == ErrorCode.FENCED_LEADER_EPOCH


async def test_idle_follower_does_not_lag_after_the_next_append(tmp_path: Path) -> None:
    async with leaders(tmp_path, count=1) as it:
        fetcher, other = it.fetcher(), it.fetcher(OTHER)
        for _ in range(4):
            await fetcher.fetch()
            if it.clock.shift == 0:
                await other.fetch()
            it.clock.shift += 20
        it.append(0)
        it.partitions[0].leader.remove_lagging_followers()
        [(_, proposal)] = it.proposals
        assert proposal.replicas == (LEADER, FOLLOWER)


async def test_follower_outside_the_in_sync_set_is_read_until_it_joins(tmp_path: Path) -> None:
    async with leaders(tmp_path, count=1) as it:
        fetcher = it.fetcher()
        await fetcher.fetch()
        await fetcher.fetch()
        assert not fetcher.session.changed
        lead(it.partitions[0], in_sync=(LEADER, OTHER))
        await fetcher.fetch()
        assert len(it.proposals) == 1
        assert fetcher.session.changed
        lead(it.partitions[0], in_sync=(LEADER, FOLLOWER, OTHER))
        await fetcher.fetch()
        assert not fetcher.session.changed


async def test_retention_is_noticed_by_the_full_look(tmp_path: Path) -> None:
    async with leaders(tmp_path, count=1) as it:
        fetcher, other = it.fetcher(), it.fetcher(OTHER)
        it.append(0)
        for _ in range(3):
            await fetcher.fetch()
            await other.fetch()
        it.partitions[0].log.advance_log_start(1, 0)
        assert await fetcher.fetch() == []
        it.clock.shift = FULL_LOOK_SECONDS
        await fetcher.fetch()
        assert fetcher.copies[0].log_start == 1


async def test_new_session_of_a_follower_replaces_the_old_one(tmp_path: Path) -> None:
    async with leaders(tmp_path) as it:
        old, new = it.fetcher(), it.fetcher()
        await old.fetch()
        await new.fetch()
        assert [len(partition.waiting.watches) for partition in it.partitions] == [1, 1, 1]
        it.broker.node.fetch_sessions.close(old.session_id)
        it.append(0)
        assert len(await new.fetch()) == 1
        it.broker.node.fetch_sessions.close(new.session_id)
        assert not any(partition.waiting.watches for partition in it.partitions)


@pytest.mark.parametrize("seed", range(8))
async def test_each_response_tells_all_that_has_changed(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    async with leaders(tmp_path, count=4) as it:
        fetchers = [it.fetcher(FOLLOWER), it.fetcher(OTHER)]
        for _ in range(300):
            index = dice.randrange(4)
            partition = it.partitions[index]
            match dice.choice(("append", "append", "fetch", "fetch", "delete", "shrink", "expand")):
                case "append":
                    it.append(index)
                case "delete":
                    partition.delete_records_before(-1, 0)
                case "shrink":
                    lead(partition, in_sync=(LEADER, OTHER))
                case "expand":
                    lead(partition, in_sync=(LEADER, FOLLOWER, OTHER))
                case _:
                    fetcher = dice.choice(fetchers)
                    await fetcher.fetch()
                    for copy, led in zip(fetcher.copies, it.partitions, strict=True):
                        assert copy.end == led.log.log_end_offset
                        assert copy.high_watermark == led.high_watermark
                        assert copy.log_start == led.log.log_start_offset
