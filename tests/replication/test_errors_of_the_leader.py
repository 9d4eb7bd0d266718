"""A fetcher delays a partition after an error and continues by itself."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

import pytest

from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.records.batch import HEADER_BYTES
from tests.replication.nodes import FOLLOWER, following, until
from tests.replication.scripted_leader import TOPIC, TOPIC_ID
from tests.storage.batches import records_from

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pykbroker.partitions.partition import Partition
    from tests.replication.nodes import Follower
    from tests.replication.scripted_leader import ScriptedLeader


def is_committed(partition: Partition, offset: int) -> bool:
    return partition.high_watermark == offset


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
async def test_a_partition_is_fetched_again_after_an_error(
    error: ErrorCode, leader: ScriptedLeader, follower: Follower
) -> None:
    led = leader.lead()
    led.errors = [error] * 2
    led.append(b"a")
    follower.follow(TOPIC, TOPIC_ID)
    await until(lambda: follower.partition(TOPIC).log.log_end_offset == 1)


async def test_an_error_of_one_partition_does_not_delay_another(
    leader: ScriptedLeader, follower: Follower
) -> None:
    failing, healthy = leader.lead(0), leader.lead(1)
    failing.errors = [ErrorCode.KAFKA_STORAGE_ERROR] * 1_000_000
    follower.follow(TOPIC, TOPIC_ID, partitions=2)
    for count in range(1, 20):
        healthy.append(b"a")
        await until(partial(is_committed, follower.partition(TOPIC, 1), count))
    assert follower.partition(TOPIC, 0).log.log_end_offset == 0


async def test_a_fenced_partition_waits_for_the_next_leader_epoch(
    leader: ScriptedLeader, follower: Follower
) -> None:
    led, other = leader.lead(0), leader.lead(1)
    led.epoch = 1
    led.append(b"a")
    follower.follow(TOPIC, TOPIC_ID, partitions=2)
    for count in range(1, 20):
        other.append(b"b")
        await until(partial(is_committed, follower.partition(TOPIC, 1), count))
    requests = [it.topics[0].partitions for _, it in leader.fetches if it.topics]
    assert sum(any(it.partition == 0 for it in partitions) for partitions in requests) == 1
    other.epoch = 1
    follower.follow(TOPIC, TOPIC_ID, partitions=2, leader_epoch=1)
    await until(lambda: follower.partition(TOPIC).high_watermark == 1)


@pytest.mark.parametrize(
    "error", [ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.UNKNOWN_SERVER_ERROR]
)
async def test_a_refused_request_is_repeated(
    error: ErrorCode, leader: ScriptedLeader, follower: Follower
) -> None:
    leader.errors = [error]
    leader.lead().append(b"a")
    follower.follow(TOPIC, TOPIC_ID)
    await until(lambda: follower.partition(TOPIC).log.log_end_offset == 1)


async def test_a_fetcher_connects_again_after_a_lost_connection(
    leader: ScriptedLeader, follower: Follower, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    led = leader.lead()
    follower.follow(TOPIC, TOPIC_ID)
    for count in range(1, 4):
        led.append(b"a")
        await until(partial(is_committed, follower.partition(TOPIC), count))
        leader.drop_connections()
    led.append(b"a")
    await until(lambda: follower.partition(TOPIC).high_watermark == 4)
    assert "replication from broker 1 (fetcher 0): failed" in caplog.text
    assert "replication from broker 1 (fetcher 0): continues after" in caplog.text


async def test_a_leader_that_is_not_registered_yet_is_followed_later(
    leader: ScriptedLeader, follower: Follower
) -> None:
    leader.lead().append(b"a")
    del follower.image.brokers[1]
    follower.follow(TOPIC, TOPIC_ID)
    await until(lambda: follower.fetchers.fetchers[0]._failing_since is not None)
    follower.know(1, leader.port)
    await until(lambda: follower.partition(TOPIC).log.log_end_offset == 1)


def flipped(records: bytes) -> bytes:
    return records[:-1] + bytes([records[-1] ^ 1])


def without_complete_batch(records: bytes) -> bytes:
    return records[: HEADER_BYTES + 1]


@pytest.mark.parametrize("tamper", [flipped, without_complete_batch])
async def test_a_corrupt_batch_is_not_written_and_fetched_again(
    tamper: Callable[[bytes], bytes],
    leader: ScriptedLeader,
    follower: Follower,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    led = leader.lead()
    led.tampering = [tamper, tamper]
    led.append(b"a", b"b")
    follower.follow(TOPIC, TOPIC_ID)
    copy = follower.partition(TOPIC)
    await until(lambda: copy.log.log_end_offset == 2)
    assert not led.tampering
    assert records_from(copy.log, 0) == [(0, b"a"), (1, b"b")]
    stopped = [it for it in caplog.messages if "replication from leader 1 stopped" in it]
    assert len(stopped) == 1
    assert any("orders-0: replication from leader 1 continues" in it for it in caplog.messages)


async def test_an_incomplete_last_batch_is_fetched_again(
    leader: ScriptedLeader, follower: Follower
) -> None:
    led = leader.lead()
    led.tampering = [lambda records: records[:-5]]
    led.append(b"a")
    led.append(b"b")
    follower.follow(TOPIC, TOPIC_ID)
    await until(lambda: follower.partition(TOPIC).log.log_end_offset == 2)
    assert not led.tampering


async def test_a_leader_that_stopped_to_answer_is_asked_on_a_new_connection_when_it_leads_again(
    leader: ScriptedLeader, follower: Follower
) -> None:
    led = leader.lead()
    follower.follow(TOPIC, TOPIC_ID)
    await until(lambda: leader.fetches)
    leader.is_silent = True
    count = len(leader.fetches)
    await until(lambda: len(leader.fetches) >= count)
    follower.follow(TOPIC, TOPIC_ID, leader=FOLLOWER, leader_epoch=1)
    assert not follower.fetchers.fetchers
    leader.is_silent, led.epoch = False, 2
    leader.connections.clear()
    led.append(b"a")
    follower.follow(TOPIC, TOPIC_ID, leader_epoch=2)
    await until(lambda: follower.partition(TOPIC).high_watermark == 1)
    assert len(leader.connections) == 1


async def test_a_request_without_an_answer_times_out(
    tmp_path: Path, leader: ScriptedLeader
) -> None:
    async with following(tmp_path / "copy", replica_socket_timeout_ms=200) as follower:
        follower.know(1, leader.port)
        led = leader.lead()
        led.append(b"a")
        leader.is_silent = True
        follower.follow(TOPIC, TOPIC_ID)
        await until(lambda: len(leader.connections) > 1)
        leader.is_silent = False
        await until(lambda: follower.partition(TOPIC).high_watermark == 1)
