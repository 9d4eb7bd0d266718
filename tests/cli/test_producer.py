"""Where records go that name their partition, and what is said if it is not there."""

from collections.abc import AsyncIterator

import pytest

from pykbroker import AsyncBroker
from pykbroker.cli.client import Client
from pykbroker.cli.command_line.values import address
from pykbroker.cli.failure import Refused
from pykbroker.cli.producer import ACKS_ALL, Delivery, Producer
from pykbroker.cli.record_lines import NewRecord
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
from pykbroker_protocol.records.compression import Compression

DELIVERY = Delivery(
    acks=ACKS_ALL, compression=Compression.NONE, batch_bytes=1000, is_idempotent=False
)


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with AsyncBroker({"trucks": 3}) as broker:
        client = await Client.connect([address(broker.bootstrap)], 30.0)
        yield client
        await client.close()


def record(partition: int) -> NewRecord:
    return NewRecord(key=None, value=b"v", partition=partition)


@pytest.mark.parametrize("partition", [-1, 3])
async def test_a_record_for_a_partition_that_is_not_there_is_refused(
    client: Client, partition: int
) -> None:
    producer = await Producer.open(client, "trucks", DELIVERY)
    with pytest.raises(Refused, match=f"There is no partition {partition}, there are 3"):
        await producer.write([record(0), record(partition)])


async def test_a_partition_that_the_topic_has_no_longer_is_waited_for_by_nobody(
    client: Client,
) -> None:
    producer = await Producer.open(client, "trucks", DELIVERY)
    await make_anew(client, "trucks", partitions=1)
    with pytest.raises(Refused, match="There is no partition 2, there are 1"):
        await producer.write([record(0), record(2)])


async def make_anew(client: Client, name: str, *, partitions: int) -> None:
    await client.ask(
        DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name)], topic_names=[name], timeout_ms=1000
        ),
        DeleteTopicsResponse,
    )
    wish = CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=1, assignments=(), configs=()
    )
    created = await client.ask(
        CreateTopicsRequest(topics=[wish], timeout_ms=1000), CreateTopicsResponse
    )
    assert created.topics[0].error_code == 0
