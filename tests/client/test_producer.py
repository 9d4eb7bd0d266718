"""The producer and the consumer against an embedded broker and a scripted one."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from pykbroker import AsyncBroker
from pykbroker.cli.command_line.values import address
from pykbroker.client.cluster_client import ClusterClient
from pykbroker.client.consumer import READ_UNCOMMITTED, Consumer, Position
from pykbroker.client.errors import ApiError, InvalidResponse
from pykbroker.client.log_offsets import EARLIEST, LATEST, log_offsets
from pykbroker.client.producer import ACKS_ALL, ACKS_NONE, Delivery, NewRecord, Producer
from pykbroker_protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from pykbroker_protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from pykbroker_protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from pykbroker_protocol.records.compression import Compression


def delivery(acks: int = ACKS_ALL, *, is_idempotent: bool = False) -> Delivery:
    return Delivery(
        acks=acks, compression=Compression.NONE, batch_bytes=100, is_idempotent=is_idempotent
    )


@pytest.fixture
async def client() -> AsyncIterator[ClusterClient]:
    async with AsyncBroker({"trucks": 3}) as broker:
        client = await ClusterClient.connect([address(broker.bootstrap)])
        yield client
        await client.close()


def record(partition: int, value: bytes = b"v") -> NewRecord:
    return NewRecord(key=None, value=value, partition=partition)


async def consumed(client: ClusterClient) -> dict[int, list[bytes | None]]:
    topic = await client.topic("trucks")
    starts = await log_offsets(client, topic, EARLIEST)
    ends = await log_offsets(client, topic, LATEST)
    positions = [Position(partition=it, offset=starts[it], end=ends[it]) for it in starts]
    found: dict[int, list[bytes | None]] = {}
    async for partition, records in Consumer(client, topic, positions, READ_UNCOMMITTED).records():
        found.setdefault(partition, []).extend(it.value for it in records)
    return found


@pytest.mark.parametrize(
    "how", [delivery(ACKS_ALL, is_idempotent=True), delivery(1), delivery(ACKS_NONE)]
)
async def test_written_records_are_consumed_in_order(client: ClusterClient, how: Delivery) -> None:
    producer = await Producer.open(client, "trucks", how)
    values: list[bytes | None] = [b"%d" % n for n in range(50)]  # several batches
    await producer.write([record(n % 2, b"%d" % n) for n in range(50)])
    await producer.flush()
    assert await consumed(client) == {0: values[::2], 1: values[1::2]}
    assert [producer.written[it].records for it in (0, 1)] == [25, 25]


@pytest.mark.parametrize("partition", [-1, 3])
async def test_a_record_for_a_missing_partition_is_refused(
    client: ClusterClient, partition: int
) -> None:
    producer = await Producer.open(client, "trucks", delivery())
    with pytest.raises(ApiError, match=f"Partition {partition} does not exist, the topic has 3"):
        await producer.write([record(0), record(partition)])


async def test_a_partition_missing_after_the_topic_was_recreated_is_refused(
    client: ClusterClient,
) -> None:
    producer = await Producer.open(client, "trucks", delivery())
    await recreate(client, "trucks", partitions=1)
    with pytest.raises(ApiError, match="Partition 2 does not exist, the topic has 1"):
        await producer.write([record(0), record(2)])


async def test_a_response_about_other_partitions_is_invalid(
    client: ClusterClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = await Producer.open(client, "trucks", delivery())
    other = PartitionProduceResponse(index=1, error_code=0, base_offset=0)
    response = ProduceResponse(
        responses=[TopicProduceResponse(name="trucks", partition_responses=[other])]
    )

    async def answer(*_: object, **__: object) -> ProduceResponse:
        await asyncio.sleep(0)
        return response

    monkeypatch.setattr(client, "request", answer)
    with pytest.raises(InvalidResponse, match="other partitions"):
        await producer.write([record(0)])


async def recreate(client: ClusterClient, name: str, *, partitions: int) -> None:
    await client.request(
        DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name)], topic_names=[name], timeout_ms=1000
        ),
        DeleteTopicsResponse,
    )
    topic = CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=1, assignments=(), configs=()
    )
    created = await client.request(
        CreateTopicsRequest(topics=[topic], timeout_ms=1000), CreateTopicsResponse
    )
    assert created.topics[0].error_code == 0
