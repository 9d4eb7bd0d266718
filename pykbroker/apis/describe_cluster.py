"""DescribeCluster: returns cluster id, controller and brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.apis.operations import ALL_ON_A_CLUSTER, NOT_ASKED
from pykbroker.apis.reachability import controller_id
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterResponse,
)

if TYPE_CHECKING:
    from pykbroker.apis.node import Call
    from pykbroker_protocol.messages.describe_cluster import DescribeClusterRequest

BROKERS = 1
CONTROLLERS = 2
ENDPOINT_TYPE_SINCE_VERSION = 1


def handle(request: DescribeClusterRequest, call: Call) -> DescribeClusterResponse:
    image = call.node.image
    if call.version >= ENDPOINT_TYPE_SINCE_VERSION and request.endpoint_type != BROKERS:
        return refused(request)
    listener = call.peer.listener
    return DescribeClusterResponse(
        error_code=ErrorCode.NONE,
        cluster_id=image.cluster_id,
        controller_id=controller_id(call),
        cluster_authorized_operations=(
            ALL_ON_A_CLUSTER if request.include_cluster_authorized_operations else NOT_ASKED
        ),
        brokers=[
            DescribeClusterBroker(
                broker_id=broker.id,
                host=broker.listeners[listener][0],
                port=broker.listeners[listener][1],
                rack=broker.rack,
                is_fenced=broker.fenced,
            )
            for broker in image.brokers.values()
            if listener in broker.listeners
            and (request.include_fenced_brokers or not broker.fenced)
        ],
    )


def refused(request: DescribeClusterRequest) -> DescribeClusterResponse:
    """Rejects other endpoint types than brokers: this is a broker listener."""
    code = (
        ErrorCode.MISMATCHED_ENDPOINT_TYPE
        if request.endpoint_type == CONTROLLERS
        else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
    )
    return DescribeClusterResponse(
        error_code=code,
        error_message=code.sentence,
        cluster_id="",
        brokers=(),
    )
