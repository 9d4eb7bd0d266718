"""Requests that a broker forwards, or sends for itself, to a real controller of Apache Kafka."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

import pytest

from compat.wire import Wire
from pykbroker.address import Address
from pykbroker.client.connection_options import ConnectionOptions
from pykbroker.clock import SystemClock
from pykbroker.controller_access import ForwardedClient, NewTopic
from pykbroker.membership.controller_channel import QuorumChannel
from pykbroker.membership.controller_quorum import ControllerQuorum
from pykbroker.membership.quorum_view import QuorumView
from pykbroker.membership.remote_controller import RemoteController
from pykbroker.membership.request_forwarding import EnvelopeForwarding
from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.message import NO_VERSIONS, Versions
from pykbroker_protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from pykbroker_protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from pykbroker_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from compat.apache import ApacheKafka
    from tests.membership.conftest import Followers

CLIENT = ForwardedClient("admin", "127.0.0.1")
DEADLINE_SECONDS = 20.0


class Part(NamedTuple):
    forwarding: EnvelopeForwarding
    controller: RemoteController


@pytest.fixture
async def part(apache: ApacheKafka, followers: Followers) -> AsyncIterator[Part]:
    address = Address("127.0.0.1", apache.controller_port)
    quorum = ControllerQuorum(QuorumView(seeds=(address,)), ConnectionOptions(timeout_seconds=5.0))
    channel = QuorumChannel(quorum)
    follower = await followers.start(address)
    async with asyncio.timeout(DEADLINE_SECONDS):
        await follower.caught_up()
    forwarding = EnvelopeForwarding(channel, SystemClock())
    yield Part(
        forwarding,
        RemoteController(
            channel,
            broker_id=apache.node_id,
            broker_epoch=lambda: follower.image.brokers[apache.node_id].epoch,
        ),
    )
    await forwarding.close()
    await channel.close()
    await quorum.close()


def create(name: str, replicas: int = 1) -> CreateTopicsRequest:
    topic = CreatableTopic(
        name=name, num_partitions=2, replication_factor=replicas, assignments=(), configs=()
    )
    return CreateTopicsRequest(topics=[topic])


@pytest.mark.parametrize("version", [2, 4, 7])
async def test_the_controller_executes_the_request_and_returns_its_response(
    part: Part, version: int
) -> None:
    for expected in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
        response = await part.forwarding.forward(
            create(f"forwarded-{version}"), CreateTopicsResponse, version=version, client=CLIENT
        )
        assert isinstance(response, CreateTopicsResponse)
        assert [(it.name, it.error_code) for it in response.topics] == [
            (f"forwarded-{version}", expected)
        ]


async def test_a_request_that_cannot_be_forwarded_is_an_error_of_the_envelope(part: Part) -> None:
    outcome = await part.forwarding.forward(
        DescribeClusterRequest(include_cluster_authorized_operations=False),
        DescribeClusterResponse,
        version=0,
        client=CLIENT,
    )
    assert outcome is ErrorCode.INVALID_REQUEST


async def test_the_versions_of_the_controller_are_known_after_the_first_request(
    part: Part,
) -> None:
    assert part.forwarding.versions_of(ApiKey.CREATE_TOPICS) is None
    await part.forwarding.forward(
        create("versions"), CreateTopicsResponse, version=7, client=CLIENT
    )
    assert part.forwarding.versions_of(ApiKey.CREATE_TOPICS) == Versions(2, 7)
    assert part.forwarding.versions_of(ApiKey.PRODUCE) == NO_VERSIONS


@pytest.mark.parametrize("client", [None, CLIENT])
async def test_a_topic_is_created_in_the_background(
    part: Part, apache: ApacheKafka, client: ForwardedClient | None
) -> None:
    name = f"automatic-{client is None}"
    topic = NewTopic(name=name, partitions=3, configuration={"cleanup.policy": "compact"})
    part.forwarding.begin_topic_creation([topic], client)
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
    )
    async with asyncio.timeout(DEADLINE_SECONDS):
        with Wire(apache.port) as wire:
            while (found := wire.ask(request, 12).topics[0]).error_code:  # noqa: ASYNC110 - polls
                await asyncio.sleep(0.05)
    assert len(found.partitions) == 3


async def test_each_block_of_producer_ids_follows_the_one_before(part: Part) -> None:
    first = await part.controller.allocate_producer_ids()
    second = await part.controller.allocate_producer_ids()
    assert isinstance(first, range)
    assert isinstance(second, range)
    assert len(first) == len(second) == 1000
    assert first.stop == second.start


async def test_the_broker_creates_topics_as_itself(part: Part) -> None:
    outcomes = await part.controller.create_topics(
        [NewTopic(name="own"), NewTopic(name="too-many", replication_factor=9)]
    )
    assert not isinstance(outcomes[0], Refusal)
    assert isinstance(outcomes[1], Refusal)
    assert outcomes[1].code is ErrorCode.INVALID_REPLICATION_FACTOR
