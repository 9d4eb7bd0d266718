"""Requests that wait at an embedded broker follow its clock and its partitions' leadership."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from pykbroker import AsyncBroker
from pykbroker_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pykbroker_protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.apis.one_broker import Client
from tests.storage.batches import batch_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from pykbroker.partitions.partition import Partition

FETCH_VERSION, PRODUCE_VERSION = 12, 12
TEN_MINUTES_MS = 600_000
TIMEOUT_SECONDS = 60


def partition_of(kafka: AsyncBroker) -> Partition:
    partition = kafka._running.partitions.get("orders", 0)
    assert partition is not None
    return partition


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while not condition():  # noqa: ASYNC110 - the broker has no event for it
            await asyncio.sleep(0.001)


async def test_a_waiting_fetch_ends_when_the_clock_is_advanced() -> None:
    async with AsyncBroker(topics=["orders"]) as kafka:
        fetch = FetchRequest(
            max_wait_ms=TEN_MINUTES_MS,
            min_bytes=1,
            topics=[
                FetchTopic(
                    topic="orders",
                    partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=9)],
                )
            ],
        )
        response = Client(kafka._running).ask(fetch, FETCH_VERSION)
        await until(lambda: partition_of(kafka).waiting.fetches)
        await kafka.clock.advance(minutes=11)
        async with asyncio.timeout(TIMEOUT_SECONDS):
            assert (await response).responses[0].partitions[0].error_code == 0


async def test_a_waiting_produce_names_the_new_leader_when_leadership_moves() -> None:
    async with AsyncBroker(topics=["orders"]) as kafka:
        partition = partition_of(kafka)
        here = replace(partition.leadership, replicas=(partition.node_id, 7))
        partition.lead_or_follow(replace(here, in_sync=here.replicas))
        produce = ProduceRequest(
            acks=-1,
            timeout_ms=TEN_MINUTES_MS,
            topic_data=[
                TopicProduceData(
                    name="orders",
                    partition_data=[PartitionProduceData(index=0, records=batch_bytes([b"v"]))],
                )
            ],
        )
        response = Client(kafka._running).ask(produce, PRODUCE_VERSION)
        await until(lambda: partition.waiting.commits)
        partition.lead_or_follow(replace(here, leader=7, leader_epoch=5))
        async with asyncio.timeout(TIMEOUT_SECONDS):
            (answer,) = (await response).responses[0].partition_responses
        assert answer.error_code == 6  # NOT_LEADER_OR_FOLLOWER
        assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (7, 5)


async def test_a_waiting_producer_retries_at_once_when_leadership_moves() -> None:
    from aiokafka import AIOKafkaProducer

    async with AsyncBroker(topics=["orders"]) as kafka:
        partition = partition_of(kafka)
        alone = partition.leadership
        both = (partition.node_id, 7)
        partition.lead_or_follow(replace(alone, replicas=both, in_sync=both))
        producer = AIOKafkaProducer(
            bootstrap_servers=kafka.bootstrap, acks="all", request_timeout_ms=TEN_MINUTES_MS
        )
        async with asyncio.timeout(TIMEOUT_SECONDS), producer:
            sent = await producer.send("orders", b"v", partition=0)
            await until(lambda: partition.waiting.commits)
            partition.lead_or_follow(replace(alone, leader=7))
            partition.lead_or_follow(alone)
            assert (await sent).offset == 1  # the retry is a second record
        assert "NOT_LEADER_OR_FOLLOWER" in str(kafka.timeline)
