"""Requests to a cluster: bootstrap, topics, and brokers that restart or send garbage."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from pykbroker import AsyncBroker
from pykbroker.address import Address
from pykbroker.cli.command_line.values import address
from pykbroker.client.cluster_client import ClusterClient
from pykbroker.client.connection_options import ConnectionOptions
from pykbroker.client.coordinator import Coordinator
from pykbroker.client.errors import (
    ApiError,
    ConnectionFailed,
    Disconnected,
    InvalidResponse,
    TimedOut,
)
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.client.conftest import scripted_broker

BRIEF = ConnectionOptions(timeout_seconds=0.05)


@pytest.fixture
async def broker() -> AsyncIterator[AsyncBroker]:
    async with AsyncBroker({"trucks": 3}) as broker:
        yield broker


@pytest.fixture
async def client(broker: AsyncBroker) -> AsyncIterator[ClusterClient]:
    client = await ClusterClient.connect([address(broker.bootstrap)])
    yield client
    await client.close()


async def test_a_topic_has_its_partitions_in_order(client: ClusterClient) -> None:
    topic = await client.topic("trucks")
    assert [it.partition_index for it in topic.partitions] == [0, 1, 2]


async def test_an_unknown_topic_is_an_error_at_once(client: ClusterClient) -> None:
    with pytest.raises(ApiError) as refused:
        await client.topic("nowhere")
    assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_topic_that_may_be_created_is_retried_until_it_exists(
    client: ClusterClient,
) -> None:
    topic = await client.topic("depots", may_create=True)
    assert topic.name == "depots"


async def test_an_unknown_node_id_is_an_error(client: ClusterClient) -> None:
    with pytest.raises(ApiError, match="There is no broker 9") as refused:
        await client.broker(9)
    assert refused.value.code is ErrorCode.BROKER_NOT_AVAILABLE


async def test_all_requests_to_a_broker_share_one_connection(client: ClusterClient) -> None:
    await client.metadata()
    (node_id,) = client.brokers
    connections = await asyncio.gather(*(client.broker(node_id) for _ in range(5)))
    assert set(connections) == {await client.any_broker()}


async def test_the_coordinator_of_a_group_is_found(client: ClusterClient) -> None:
    assert await Coordinator(client, "readers").node_id() in client.brokers


async def test_connect_uses_the_first_broker_that_answers(
    broker: AsyncBroker, unused_tcp_port: int
) -> None:
    addresses = [Address("127.0.0.1", unused_tcp_port), address(broker.bootstrap)]
    client = await ClusterClient.connect(addresses)
    assert (await client.any_broker()).address == addresses[1]
    await client.close()


async def test_connect_skips_a_server_that_sends_garbage(broker: AsyncBroker) -> None:
    async with scripted_broker(send_garbage) as garbage:
        client = await ClusterClient.connect([garbage, address(broker.bootstrap)])
        assert (await client.any_broker()).address == address(broker.bootstrap)
        await client.close()


async def test_connect_names_each_broker_that_failed(unused_tcp_port: int) -> None:
    dead = [Address("127.0.0.1", unused_tcp_port), Address("localhost", unused_tcp_port)]
    with pytest.raises(ConnectionFailed) as raised:
        await ClusterClient.connect(dead, BRIEF)
    assert all(str(it) in str(raised.value) for it in dead)


async def test_a_closed_connection_is_replaced(client: ClusterClient) -> None:
    await (await client.any_broker()).close()
    assert (await client.topic("trucks")).name == "trucks"


async def read_forever(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    while await reader.read(4096):
        pass


async def close_after_a_request(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read(4096)


async def send_garbage(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(4096)
    writer.write(b"\0\0\0\x0aten bytes!")
    await reader.read()


@pytest.mark.parametrize(
    ("script", "error", "text"),
    [
        (read_forever, TimedOut, "did not respond in 0.05 s"),
        (close_after_a_request, Disconnected, "connection"),
        (send_garbage, InvalidResponse, "correlation id 1952804384, expected 1"),
    ],
)
async def test_a_broker_that_fails_to_answer_is_an_error(
    script: object, error: type[Exception], text: str
) -> None:
    options = BRIEF if error is TimedOut else ConnectionOptions()
    async with scripted_broker(script) as where:  # type: ignore[arg-type]  # one of three
        with pytest.raises(error, match=text):
            await ClusterClient.connect([where], options)


async def test_requests_that_a_dead_broker_left_open_fail(broker: AsyncBroker) -> None:
    client = await ClusterClient.connect([address(broker.bootstrap)])
    await broker.stop()
    with pytest.raises(ConnectionFailed):
        await client.request(MetadataRequest(topics=None), MetadataResponse)
    await client.close()
