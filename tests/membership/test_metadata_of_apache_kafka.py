"""The metadata follower under a real controller of Apache Kafka."""

import asyncio

from compat.apache import ApacheKafka
from pykbroker.address import Address
from pykbroker.client.connection_options import ConnectionOptions
from pykbroker.membership.controller_channel import QuorumChannel
from pykbroker.membership.controller_quorum import ControllerQuorum
from pykbroker.membership.quorum_view import QuorumView
from pykbroker_protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from tests.membership.conftest import CLUSTER_ID, Followers

DEADLINE_SECONDS = 20.0


def controller_of(apache: ApacheKafka) -> Address:
    return Address("127.0.0.1", apache.controller_port)


async def test_the_copy_of_the_log_is_byte_identical(
    followers: Followers, apache: ApacheKafka
) -> None:
    follower = await followers.start(controller_of(apache))
    async with asyncio.timeout(DEADLINE_SECONDS):
        await follower.caught_up()
    assert follower.image.features["metadata.version"] == 30
    assert follower.image.controller_id == follower.leader_id == apache.node_id
    assert follower.image.brokers[apache.node_id].listeners == {
        "PLAINTEXT": ("127.0.0.1", apache.port)
    }
    await followers.stop()
    copied = followers.log_bytes()
    original = (apache.data_dir / "__cluster_metadata-0" / f"{0:020d}.log").read_bytes()
    assert len(copied) > 1000
    assert original.startswith(copied)


async def test_the_channel_finds_the_active_controller(apache: ApacheKafka) -> None:
    options = ConnectionOptions(timeout_seconds=2.0)
    quorum = ControllerQuorum(QuorumView(seeds=(controller_of(apache),)), options)
    channel = QuorumChannel(quorum)
    request = DescribeClusterRequest(include_cluster_authorized_operations=False, endpoint_type=2)
    response = await channel.request(request, DescribeClusterResponse)
    await channel.close()
    await quorum.close()
    assert response.cluster_id == CLUSTER_ID
    assert response.controller_id == apache.node_id
