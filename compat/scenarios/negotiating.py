"""Scenarios of version negotiation and bootstrap."""

from __future__ import annotations

from typing import TYPE_CHECKING

from compat.suite.assertions import must, must_equal
from compat.suite.records import record
from compat.suite.scenario import scenario
from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.compiler import decode
from pykbroker_protocol.frame import read_response_header
from pykbroker_protocol.messages.api_versions import ApiVersionsResponse

if TYPE_CHECKING:
    from compat.suite.recording import Frame
    from compat.suite.scenario_context import ScenarioContext


@scenario(
    "negotiate",
    "A client requests the supported versions and uses only those.",
    core=True,
)
def negotiate(context: ScenarioContext) -> None:
    topic = context.topic()
    client = context.client()
    client.open_producer()
    client.produce([record(topic)])
    client.open_consumer()
    client.read_from([(topic, 0, "beginning")])
    client.read(1)
    offered = list(context.relay.recording.of(ApiKey.API_VERSIONS, requests=False))
    must(offered, "the client sent no ApiVersions request")
    ranges = ranges_in(offered[-1])
    for frame in tuple(context.relay.recording.frames):
        if frame.is_request and frame.api_key != ApiKey.API_VERSIONS:
            first, last = ranges[frame.api_key]
            must(first <= frame.version <= last, f"{frame.headline()} is not in {first}-{last}")


def ranges_in(frame: Frame) -> dict[int, tuple[int, int]]:
    _, position = read_response_header(frame.content, ApiVersionsResponse, frame.version)
    response = decode(ApiVersionsResponse, frame.version, frame.content, position)
    must_equal(response.error_code, 0, "the error code of ApiVersions")
    return {it.api_key: (it.min_version, it.max_version) for it in response.api_keys}


@scenario(
    "bootstrap-from-any-node",
    "A client finds all nodes and the leader from any bootstrap node.",
    core=True,
)
def bootstrap_from_any_node(context: ScenarioContext) -> None:
    topic = context.topic(partitions=3)
    for number, node in enumerate(context.reference.nodes()):
        context.relay.listen_for(node)
        client = context.client()
        address = "{}:{}".format(*context.relay.address_of(node))
        client.open_producer(bootstrap=address)
        value = b"%d" % number
        rows = [record(topic, value, partition=partition) for partition in range(3)]
        written = client.produce(rows)
        must_equal([it.partition for it in written], [0, 1, 2], "the partitions written to")
        for partition in range(3):
            found = [it.value for it in context.reference.records(topic, partition)]
            must_equal(found[-1], value, f"the last record of partition {partition}")


@scenario(
    "bootstrap-past-a-dead-address",
    "A client skips an unreachable bootstrap address.",
)
def bootstrap_past_a_dead_address(context: ScenarioContext) -> None:
    topic = context.topic()
    client = context.client()
    client.open_producer(bootstrap=f"127.0.0.1:1,{context.relay.bootstrap}")
    client.produce([record(topic)])
    must_equal(len(context.reference.records(topic)), 1, "records in the log")
