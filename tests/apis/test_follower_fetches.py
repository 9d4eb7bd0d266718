"""Fetches of followers: progress, high watermark, refusals and long polls."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from pykbroker.controller_access import ConfigurationChange, ConfigurationOperation
from pykbroker.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from pykbroker_protocol.messages.fetch import EpochEndOffset
from tests.apis.one_broker import TIMEOUT_SECONDS, Client, answer_of
from tests.apis.replicated_partition import (
    FOLLOWER,
    LEADER,
    OTHER,
    broker_image,
    offsets_in,
    only,
    replicated,
)
from tests.apis.request_builders import offsets_at

if TYPE_CHECKING:
    from pathlib import Path

    from pykbroker.broker import Broker

NONE = ErrorCode.NONE
NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER
ALL = -1
REPLICATION_VERSIONS = (12, 13, 14, 15, 16, 17, 18)
HOUR_MS = 3_600_000


@pytest.mark.parametrize("version", REPLICATION_VERSIONS)
async def test_follower_reads_to_the_log_end_and_moves_the_high_watermark(
    tmp_path: Path, version: int
) -> None:
    async with replicated(tmp_path, in_sync=(LEADER, FOLLOWER)) as it:
        await it.wrote(b"a")
        await it.wrote(b"b")
        row = await it.fetched(0, version=version)
        assert (row.error_code, row.high_watermark, offsets_in(row)) == (NONE, 0, [0, 1])
        row = await it.fetched(1, version=version)
        assert (row.high_watermark, offsets_in(row)) == (1, [1])
        row = await it.fetched(2, version=version)
        assert (row.high_watermark, offsets_in(row)) == (2, [])


async def test_acks_all_completes_once_all_in_sync_replicas_have_fetched(tmp_path: Path) -> None:
    async with replicated(tmp_path) as it:
        response = it.produce(b"a", acks=ALL)
        await it.fetched(0)
        await it.fetched(1)
        await asyncio.sleep(0)
        assert not response.done()
        await it.fetched(1, replica=OTHER)
        row = (await response).responses[0].partition_responses[0]
        assert (row.error_code, row.base_offset) == (NONE, 0)


async def test_acks_all_times_out_without_followers(tmp_path: Path) -> None:
    async with replicated(tmp_path) as it:
        response = await it.produce(b"a", acks=ALL, timeout_ms=10)
        row = response.responses[0].partition_responses[0]
        assert row.error_code == ErrorCode.REQUEST_TIMED_OUT


async def test_consumer_reads_nothing_between_high_watermark_and_log_end(tmp_path: Path) -> None:
    async with replicated(tmp_path) as it:
        await it.wrote(b"a")
        await it.wrote(b"b")
        for offset in (0, 1, 2):
            row = await it.fetched(offset, replica=None)
            assert (row.error_code, row.high_watermark, offsets_in(row)) == (NONE, 0, [])


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"replica": 4}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"replica": 4, "leader_epoch": -1}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ({"replica": LEADER}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"broker_epoch": 19}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ({"broker_epoch": 21}, NONE),
        ({"broker_epoch": -1}, NONE),
        ({"leader_epoch": 4}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"leader_epoch": 6}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"leader_epoch": -1}, NONE),
        ({"offset": 2}, ErrorCode.OFFSET_OUT_OF_RANGE),
        ({"offset": 1, "last_epoch": 5}, NONE),
    ],
    ids=str,
)
async def test_fetch_is_refused_as_by_apache(
    tmp_path: Path, given: dict[str, Any], code: ErrorCode
) -> None:
    async with replicated(tmp_path) as it:
        await it.wrote(b"a")
        row = await it.fetched(**{"offset": 0, **given})
        assert row.error_code == code


async def test_refused_fetch_is_no_progress(tmp_path: Path) -> None:
    async with replicated(tmp_path, in_sync=(LEADER, FOLLOWER)) as it:
        await it.wrote(b"a")
        for given in ({"broker_epoch": 19}, {"leader_epoch": 4}, {"last_epoch": 7}):
            await it.fetched(1, **given)
        assert it.partition.high_watermark == 0


async def test_follower_learns_where_its_log_diverges(tmp_path: Path) -> None:
    async with replicated(tmp_path) as it:
        await it.wrote(b"a")
        it.lead(leader_epoch=8)
        await it.wrote(b"b")
        row = await it.fetched(5, last_epoch=7)
        assert row.diverging_epoch == EpochEndOffset(epoch=5, end_offset=1)
        assert offsets_in(row) == []
        row = await it.fetched(5, last_epoch=8)
        assert row.diverging_epoch == EpochEndOffset(epoch=8, end_offset=2)


async def test_waiting_follower_gets_new_records_before_they_are_committed(
    tmp_path: Path,
) -> None:
    async with replicated(tmp_path) as it, asyncio.timeout(TIMEOUT_SECONDS):
        waiting = it.fetch(0, max_wait_ms=HOUR_MS)
        consumer = it.fetch(0, replica=None, max_wait_ms=HOUR_MS)
        await asyncio.sleep(0)
        await it.wrote(b"a")
        row = only(await waiting)
        assert (row.high_watermark, offsets_in(row)) == (0, [0])
        assert not consumer.done()
        await it.fetched(1)
        await it.fetched(1, replica=OTHER)
        assert offsets_in(only(await consumer)) == [0]


async def test_waiting_follower_learns_at_once_that_leadership_moves(tmp_path: Path) -> None:
    async with replicated(tmp_path) as it, asyncio.timeout(TIMEOUT_SECONDS):
        waiting = it.fetch(0, max_wait_ms=HOUR_MS)
        await asyncio.sleep(0)
        it.lead(leader=OTHER, leader_epoch=6)
        response = await waiting
        row = only(response)
        assert row.error_code == ErrorCode.FENCED_LEADER_EPOCH
        assert (row.current_leader.leader_id, row.current_leader.leader_epoch) == (OTHER, 6)
        [endpoint] = response.node_endpoints
        assert (endpoint.node_id, endpoint.host) == (OTHER, "host-3")


async def test_waiting_fetch_continues_when_only_the_replicas_change(tmp_path: Path) -> None:
    async with replicated(tmp_path) as it, asyncio.timeout(TIMEOUT_SECONDS):
        waiting = it.fetch(0, max_wait_ms=HOUR_MS)
        await asyncio.sleep(0)
        it.lead(replicas=(OTHER, FOLLOWER, LEADER), in_sync=(LEADER, FOLLOWER))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not waiting.done()
        await it.wrote(b"a")
        assert offsets_in(only(await waiting)) == [0]


async def test_waiting_producer_learns_at_once_that_leadership_moves(tmp_path: Path) -> None:
    async with replicated(tmp_path) as it, asyncio.timeout(TIMEOUT_SECONDS):
        waiting = it.produce(b"a", acks=ALL)
        await asyncio.sleep(0)
        it.lead(leader=OTHER, leader_epoch=6)
        response = await waiting
        row = response.responses[0].partition_responses[0]
        assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (row.current_leader.leader_id, row.current_leader.leader_epoch) == (OTHER, 6)
        assert [endpoint.host for endpoint in response.node_endpoints] == ["host-3"]


async def test_caught_up_follower_is_proposed_for_the_in_sync_set(tmp_path: Path) -> None:
    async with replicated(tmp_path, in_sync=(LEADER, FOLLOWER)) as it:
        await it.wrote(b"a")
        await it.fetched(0, replica=OTHER)
        await it.fetched(1, replica=OTHER)
        [(_, proposal)] = it.proposals
        assert proposal.in_sync == ((LEADER, 10), (FOLLOWER, -1), (OTHER, 30))
        assert (proposal.leader_epoch, proposal.partition_epoch) == (
            5,
            it.leadership.partition_epoch,
        )


async def test_throttled_partition_is_held_back_above_the_rate(tmp_path: Path) -> None:
    async with replicated(tmp_path, in_sync=(LEADER, FOLLOWER)) as it:
        await change_settings(
            it.broker,
            (TOPIC_RESOURCE, "orders", "leader.replication.throttled.replicas", "0:1"),
            (BROKER_RESOURCE, "1", "leader.replication.throttled.rate", "10"),
        )
        await it.wrote(b"a")
        assert offsets_in(await it.fetched(0, replica=OTHER)) == [0]
        waiting = it.fetch(0, replica=OTHER, max_wait_ms=HOUR_MS)
        await it.wrote(b"b")
        for _ in range(5):
            await asyncio.sleep(0)
        assert not waiting.done()
        waiting.cancel()
        assert offsets_in(await it.fetched(0, replica=OTHER)) == []
        assert offsets_in(await it.fetched(0)) == [0, 1]  # in sync, so not held back


async def change_settings(broker: Broker, *rows: tuple[int, str, str, str]) -> None:
    for kind, name, key, value in rows:
        change = ConfigurationChange(
            resource_type=kind, name=name, operations=[ConfigurationOperation(key, 0, value)]
        )
        assert await broker.controller.alter_configurations([change]) == [None]


async def test_fenced_follower_is_not_proposed(tmp_path: Path) -> None:
    async with replicated(tmp_path, in_sync=(LEADER, FOLLOWER)) as it:
        it.broker.image.brokers[OTHER] = broker_image(OTHER, 30, fenced=True)
        await it.fetched(0, replica=OTHER)
        assert it.proposals == []


async def test_follower_session_lists_partitions_with_a_new_high_watermark(tmp_path: Path) -> None:
    async with replicated(tmp_path, in_sync=(LEADER, FOLLOWER)) as it:
        await it.wrote(b"a")
        client = Client(it.broker)
        first = it.request(0, version=18, replica=FOLLOWER, session_epoch=0)
        response = await answer_of(client.ask(first, 18))
        assert offsets_in(only(response)) == [0]
        session_id = response.session_id
        second = it.request(1, version=18, replica=FOLLOWER, session_id=session_id, session_epoch=1)
        row = only(await answer_of(client.ask(second, 18)))
        assert (row.high_watermark, offsets_in(row)) == (1, [])
        third = second.replace(topics=[], session_epoch=2)
        response = await answer_of(client.ask(third, 18))
        assert response.responses == []


async def test_repeated_acks_all_waits_for_the_followers(tmp_path: Path) -> None:
    async with replicated(tmp_path, in_sync=(LEADER, FOLLOWER)) as it:
        for offset in range(4):
            waiting = it.produce(b"a", acks=ALL)
            await asyncio.sleep(0)
            assert not waiting.done()
            await it.fetched(offset + 1)
            row = (await waiting).responses[0].partition_responses[0]
            assert (row.error_code, row.base_offset) == (NONE, offset)
        assert it.repeats_of_producer == 1


async def test_repeated_acks_all_gets_the_new_leader(tmp_path: Path) -> None:
    async with replicated(tmp_path, in_sync=(LEADER, FOLLOWER)) as it:
        for offset in range(3):
            waiting = it.produce(b"a", acks=ALL)
            await it.fetched(offset + 1)
            await waiting
        waiting = it.produce(b"a", acks=ALL)
        await asyncio.sleep(0)
        it.lead(leader=OTHER, leader_epoch=6)
        response = await waiting
        row = response.responses[0].partition_responses[0]
        assert (row.error_code, row.current_leader.leader_id) == (NOT_LEADER, OTHER)
        assert [endpoint.host for endpoint in response.node_endpoints] == ["host-3"]


@pytest.mark.parametrize("acks", [0, 1, ALL])
async def test_leader_without_a_session_refuses_appends(tmp_path: Path, acks: int) -> None:
    async with replicated(tmp_path, in_sync=(LEADER,)) as it:
        for _ in range(3):  # the fast path serves the last one
            await it.wrote(b"a")
        it.broker.partitions.leader_context.session_ends_at = it.broker.clock.monotonic()
        end = it.end
        if acks:
            row = await it.wrote(b"b", acks=acks)
            assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        else:
            with pytest.raises(Exception, match="NOT_LEADER_OR_FOLLOWER"):
                await answer_of(it.produce(b"b", acks=0))
        assert it.end == end


async def test_leader_without_a_session_acknowledges_nothing(tmp_path: Path) -> None:
    async with replicated(tmp_path, in_sync=(LEADER, FOLLOWER)) as it:
        waiting = it.produce(b"a", acks=ALL)
        context = it.broker.partitions.leader_context
        context.session_ends_at = it.broker.clock.monotonic()
        await it.fetched(1)
        await asyncio.sleep(0)
        assert not waiting.done()
        assert it.partition.high_watermark == 0
        context.session_ends_at = it.broker.clock.monotonic() + HOUR_MS
        await it.fetched(1)
        it.partition.commit()
        row = (await waiting).responses[0].partition_responses[0]
        assert row.error_code == NONE


LATEST, EARLIEST = -1, -2


@pytest.mark.parametrize(
    ("version", "timestamp", "replica", "code"),
    [
        (7, LATEST, -1, ErrorCode.OFFSET_NOT_AVAILABLE),
        (4, LATEST, -1, ErrorCode.LEADER_NOT_AVAILABLE),
        (7, LATEST, FOLLOWER, NONE),
        (7, EARLIEST, -1, NONE),
        (7, 0, -1, NONE),
        (7, 2**60, -1, ErrorCode.OFFSET_NOT_AVAILABLE),
    ],
)
async def test_offsets_of_a_new_leader_are_available_after_the_start_of_its_epoch(
    tmp_path: Path, version: int, timestamp: int, replica: int, code: ErrorCode
) -> None:
    async with replicated(tmp_path, in_sync=(LEADER, FOLLOWER)) as it:
        await it.wrote(b"a")
        await it.fetched(1)
        await it.wrote(b"b")
        it.lead(leader_epoch=6)
        (request,) = offsets_at("orders", (timestamp,), epoch=-1)
        request = request.replace(replica_id=replica)

        async def asked() -> Any:
            response = await answer_of(it.producer.ask(request, version))
            return response.topics[0].partitions[0]

        assert (await asked()).error_code == code
        await it.wrote(b"c")
        await it.fetched(2)
        assert (it.partition.high_watermark, (await asked()).error_code) == (2, NONE)


def delete_before(offset: int, *, timeout_ms: int = HOUR_MS) -> DeleteRecordsRequest:
    partitions = [DeleteRecordsPartition(partition_index=0, offset=offset)]
    topic = DeleteRecordsTopic(name="orders", partitions=partitions)
    return DeleteRecordsRequest(topics=[topic], timeout_ms=timeout_ms)


def deleted(response: Any) -> tuple[int, int]:
    [row] = response.topics[0].partitions
    return row.error_code, row.low_watermark


async def test_delete_records_waits_for_the_live_followers(tmp_path: Path) -> None:
    async with replicated(tmp_path) as it, asyncio.timeout(TIMEOUT_SECONDS):
        await it.wrote(b"a")
        await it.wrote(b"b")
        for follower in (FOLLOWER, OTHER):
            await it.fetched(2, replica=follower)
        waiting = it.producer.ask(delete_before(-1), 2)
        await it.fetched(2, log_start=2)
        await asyncio.sleep(0)
        assert not waiting.done()
        await it.fetched(2, replica=OTHER, log_start=2)
        assert deleted(await waiting) == (NONE, 2)


async def test_delete_records_does_not_wait_for_fenced_followers(tmp_path: Path) -> None:
    async with replicated(tmp_path) as it, asyncio.timeout(TIMEOUT_SECONDS):
        await it.wrote(b"a")
        for follower in (FOLLOWER, OTHER):
            await it.fetched(1, replica=follower)
        it.broker.image.brokers[OTHER] = broker_image(OTHER, 30, fenced=True)
        waiting = it.producer.ask(delete_before(1), 2)
        await it.fetched(1, log_start=1)
        assert deleted(await waiting) == (NONE, 1)


async def test_delete_records_times_out(tmp_path: Path) -> None:
    async with replicated(tmp_path, in_sync=(LEADER,)) as it, asyncio.timeout(TIMEOUT_SECONDS):
        await it.wrote(b"a")
        response = await it.producer.ask(delete_before(1, timeout_ms=10), 2)
        assert deleted(response) == (ErrorCode.REQUEST_TIMED_OUT, -1)
        assert it.partition.log.log_start_offset == 1


async def test_waiting_delete_records_learns_that_leadership_moves(tmp_path: Path) -> None:
    async with replicated(tmp_path, in_sync=(LEADER,)) as it, asyncio.timeout(TIMEOUT_SECONDS):
        await it.wrote(b"a")
        waiting = it.producer.ask(delete_before(1), 2)
        await asyncio.sleep(0)
        it.lead(leader=OTHER, leader_epoch=6)
        assert deleted(await waiting) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


@pytest.mark.parametrize(("version", "code"), [(18, NONE), (11, NONE), (10, NOT_LEADER)])
async def test_follower_serves_consumers_that_know_of_it(
    tmp_path: Path, version: int, code: ErrorCode
) -> None:
    async with replicated(tmp_path, in_sync=(LEADER,)) as it:
        await it.wrote(b"a")
        it.lead(leader=OTHER, leader_epoch=6)
        row = await it.fetched(0, replica=None, version=version)
        assert (row.error_code, row.records is not None) == (code, True)
