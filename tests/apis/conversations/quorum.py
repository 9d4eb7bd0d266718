"""DescribeQuorum, UnregisterBroker and ListConfigResources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    PartitionData,
    TopicData,
)
from pykbroker_protocol.messages.list_config_resources import ListConfigResourcesRequest
from pykbroker_protocol.messages.unregister_broker import UnregisterBrokerRequest
from tests.apis.conversations.catalog import conversation
from tests.apis.conversations.configurations import SET, altered

if TYPE_CHECKING:
    from tests.apis.transcript import Plain, Transcript

METADATA = "__cluster_metadata"
TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32


@conversation
def the_quorum_is_described(broker: Transcript) -> None:
    for version in (0, 1, 2):
        for query in (
            {METADATA: (0,)},
            {METADATA: (1,)},
            {METADATA: (0, 0)},
            {METADATA: (0, 1)},
            {METADATA: ()},
            {"topic": (0,)},
            {METADATA: (0,), "topic": (0,)},
            {},
        ):
            request = DescribeQuorumRequest(
                topics=[
                    TopicData(
                        topic_name=name,
                        partitions=[PartitionData(partition_index=it) for it in indexes],
                    )
                    for name, indexes in query.items()
                ]
            )
            answer = broker.plain(broker.quietly(request, version))
            broker.note(f"DescribeQuorum v{version} {query}", without_places(broker, answer))


def without_places(broker: Transcript, answer: Plain) -> Plain:
    """Checks that the leader is at the log end; other offsets differ between clusters."""
    for topic in answer["topics"]:
        for partition in topic["partitions"]:
            ends = {it["log_end_offset"] for it in partition["current_voters"]}
            at_end = {partition["high_watermark"]} >= ends
            partition["high_watermark"] = "at the end" if at_end else partition["high_watermark"]
            partition["leader_epoch"] = partition["leader_epoch"] > 0
            for voter in partition["current_voters"]:
                del voter["log_end_offset"]
                for name in ("last_fetch_timestamp", "last_caught_up_timestamp"):
                    voter[name] = broker.plain_time(voter[name])
    for node in answer["nodes"]:
        del node["listeners"]  # controllers have no listener
    return answer


@conversation
def brokers_are_unregistered(broker: Transcript) -> None:
    for broker_id in (99, -1, 0):
        broker.ask(UnregisterBrokerRequest(broker_id=broker_id), 0, note=str(broker_id))


@conversation
def config_resources_are_listed(broker: Transcript) -> None:
    broker.quietly(
        altered(broker.prefix, ("consumer.session.timeout.ms", SET, "50000"), kind=32), 1
    )
    broker.topic()
    broker.settle()
    broker.ask(ListConfigResourcesRequest(), 0)
    for kinds in ((), (TOPIC,), (BROKER,), (LOGGER,), (METRICS,), (GROUP,), (GROUP, LOGGER, GROUP)):
        request = ListConfigResourcesRequest(resource_types=kinds)
        answer = broker.plain(broker.quietly(request, 1))
        answer["config_resources"] = own_resources(broker, answer["config_resources"])
        broker.note(f"ListConfigResources v1 {kinds}", answer)
    for unknown in ([0], [1], [3], [64], [-1], [GROUP, 5]):
        broker.ask(ListConfigResourcesRequest(resource_types=unknown), 1, note=str(unknown))


def own_resources(broker: Transcript, found: Plain) -> Plain:
    """Compares two resource types; the others depend on earlier conversations."""
    return sorted(
        (it["resource_type"], it["resource_name"])
        for it in found
        if it["resource_type"] in (BROKER, LOGGER) or it["resource_name"].startswith(broker.prefix)
    )
