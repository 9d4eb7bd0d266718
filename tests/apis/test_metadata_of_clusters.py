"""Brokers, leaders and offline replicas of a cluster, with the errors of Apache Kafka 4.3.1.

Broker 2 is fenced, broker 3 has only another listener, and broker 4 is not registered.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest

from pykbroker.apis.reachability import LOST, MIGRATING, UNASSIGNED
from pykbroker.metadata.image import PartitionImage, TopicImage
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from pykbroker_protocol.messages.describe_cluster import DescribeClusterRequest
from pykbroker_protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from pykbroker_protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from pykbroker_protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from pykbroker_protocol.messages.find_coordinator import FindCoordinatorRequest
from pykbroker_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from pykbroker_storage.filesystem import VolatileDisk
from tests.apis.one_broker import Client, answer_of, broker_on

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from pykbroker.broker import Broker

NONE = ErrorCode.NONE
NO_LEADER = ErrorCode.LEADER_NOT_AVAILABLE
NO_LISTENER = ErrorCode.LISTENER_NOT_FOUND
NO_REPLICA = ErrorCode.REPLICA_NOT_AVAILABLE


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    async with broker_on(VolatileDisk(), tmp_path / "data") as broker:
        brokers = broker.node.image.brokers
        (own,) = brokers.values()
        assert own.id == 1
        brokers[2] = dataclasses.replace(own, id=2, fenced=True)
        brokers[3] = dataclasses.replace(own, id=3, listeners={"INTERNAL": ("b3", 9092)})
        yield broker


def place(broker: Broker, *, directory: bytes | None = None, **partition: Any) -> None:
    """Adds a topic with one partition to the metadata."""
    replicas = partition["replicas"]
    own = broker.node.image.brokers[1].directories[0]
    given = {
        "index": 0,
        "in_sync": replicas,
        "leader": replicas[0],
        "leader_epoch": 7,
        "partition_epoch": 9,
        "directories": (own if directory is None else directory,) * len(replicas),
    }
    topic = TopicImage(
        name="placed", id=b"p" * 16, partitions=(PartitionImage(**{**given, **partition}),)
    )
    broker.node.image.topics["placed"] = broker.node.image.topics_by_id[topic.id] = topic


async def metadata(broker: Broker, version: int) -> Any:
    more = {"allow_auto_topic_creation": False} if version >= 4 else {}
    request = MetadataRequest(topics=[MetadataRequestTopic(name="placed")], **more)
    response = await answer_of(Client(broker).ask(request, version))
    return response.topics[0].partitions[0]


@pytest.mark.parametrize(
    ("replicas", "leader", "version", "code", "shown_leader", "offline"),
    [
        ((1, 2), 1, 12, NONE, 1, (2,)),
        ((1, 2), 1, 5, NONE, 1, (2,)),
        ((2, 1), 2, 12, NONE, 2, (2,)),  # fenced, and still the leader in the metadata
        ((2, 4), -1, 12, NO_LEADER, -1, (2, 4)),
        ((4, 1), 4, 12, NO_LEADER, -1, (4,)),
        ((3, 1), 3, 12, NO_LISTENER, -1, (3,)),
        ((3, 1), 3, 6, NO_LISTENER, -1, (3,)),
        ((3, 1), 3, 5, NO_LEADER, -1, (3,)),
    ],
)
async def test_leaders_that_clients_cannot_find_and_offline_replicas(
    broker: Broker,
    *,
    replicas: tuple[int, ...],
    leader: int,
    version: int,
    code: ErrorCode,
    shown_leader: int,
    offline: tuple[int, ...],
) -> None:
    place(broker, replicas=replicas, leader=leader)
    partition = await metadata(broker, version)
    assert (partition.error_code, partition.leader_id) == (code, shown_leader)
    assert (partition.replica_nodes, partition.isr_nodes) == (replicas, replicas)
    assert partition.offline_replicas == offline
    assert partition.leader_epoch == (7 if version >= 7 else -1)


@pytest.mark.parametrize(
    ("replicas", "in_sync", "leader", "code", "shown"),
    [
        ((1,), (1,), 1, NONE, (1,)),
        ((1, 2), (1,), 1, NO_REPLICA, (1,)),
        ((1, 3), (1, 3), 1, NO_REPLICA, (1,)),
        ((2,), (), -1, NO_LEADER, ()),
        ((3, 1), (1,), 3, NO_LEADER, (1,)),
    ],
)
async def test_version_0_contains_only_live_replicas(
    broker: Broker,
    *,
    replicas: tuple[int, ...],
    in_sync: tuple[int, ...],
    leader: int,
    code: ErrorCode,
    shown: tuple[int, ...],
) -> None:
    place(broker, replicas=replicas, in_sync=in_sync, leader=leader)
    partition = await metadata(broker, 0)
    assert (partition.error_code, partition.replica_nodes) == (code, shown)
    assert partition.leader_id == (-1 if code is NO_LEADER else leader)


@pytest.mark.parametrize(
    ("directory", "offline"),
    [(MIGRATING, ()), (UNASSIGNED, ()), (LOST, (1,)), (b"an offline dir..", (1,)), (None, ())],
)
async def test_a_replica_in_an_offline_directory_is_offline(
    broker: Broker, directory: bytes | None, offline: tuple[int, ...]
) -> None:
    place(broker, replicas=(1,), directory=directory)
    assert (await metadata(broker, 12)).offline_replicas == offline


async def test_describe_topic_partitions_has_eligible_replicas_and_no_error_without_leader(
    broker: Broker,
) -> None:
    place(broker, replicas=(2, 4, 1), in_sync=(), leader=-1, eligible=(2,), last_known=(4,))
    request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="placed")])
    response = await answer_of(Client(broker).ask(request, 0))
    (partition,) = response.topics[0].partitions
    assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (NONE, -1, 7)
    assert partition.eligible_leader_replicas == (2,)
    assert partition.last_known_elr == (4,)
    assert partition.offline_replicas == (2, 4)


@pytest.mark.parametrize("includes_fenced", [False, True])
async def test_fenced_brokers_are_described_only_on_request(
    broker: Broker, *, includes_fenced: bool
) -> None:
    request = DescribeClusterRequest(
        include_cluster_authorized_operations=False, include_fenced_brokers=includes_fenced
    )
    response = await answer_of(Client(broker).ask(request, 2))
    described = [(it.broker_id, it.is_fenced) for it in response.brokers]
    assert described == [(1, False), (2, True)][: 1 + includes_fenced]


async def test_the_controller_of_a_cluster_is_a_random_live_broker(broker: Broker) -> None:
    broker.node.image.brokers[5] = dataclasses.replace(broker.node.image.brokers[1], id=5)
    broker.node.forward = object()  # type: ignore[assignment]  # only its presence matters
    place(broker, replicas=(1,))
    request = MetadataRequest(topics=(), allow_auto_topic_creation=False)
    found = {(await answer_of(Client(broker).ask(request, 12))).controller_id for _ in range(100)}
    assert found == {1, 3, 5}


@pytest.mark.parametrize(
    ("leader", "code"),
    [
        (1, NONE),
        (2, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (3, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (4, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (-1, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
async def test_a_coordinator_is_a_live_leader_with_the_listener_of_the_client(
    broker: Broker, leader: int, code: ErrorCode
) -> None:
    place(broker, replicas=(1, 2, 3, 4), leader=leader)
    image = broker.node.image
    image.topics["__consumer_offsets"] = image.topics.pop("placed")
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=["group"])
    response = await answer_of(Client(broker).ask(request, 4))
    (coordinator,) = response.coordinators
    assert coordinator.error_code == code
    assert coordinator.node_id == (-1 if code else leader)


@pytest.mark.parametrize(
    ("index", "code"),
    [(0, ErrorCode.REPLICA_NOT_AVAILABLE), (1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)],
)
async def test_the_directory_of_a_replica_on_another_broker_is_not_available(
    broker: Broker, index: int, code: ErrorCode
) -> None:
    place(broker, replicas=(2,))
    directory = AlterReplicaLogDir(
        path=broker.directory.path,
        topics=[AlterReplicaLogDirTopic(name="placed", partitions=[index])],
    )
    response = await answer_of(Client(broker).ask(AlterReplicaLogDirsRequest(dirs=[directory]), 2))
    assert response.results[0].partitions[0].error_code == code


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("2", "Unexpected broker id, expected 1 or empty string, but received 2"),
        ("x", "Broker id must be an integer, but it is: x"),
    ],
)
async def test_properties_of_another_broker_are_refused(
    broker: Broker, name: str, message: str
) -> None:
    resource = DescribeConfigsResource(resource_type=4, resource_name=name, configuration_keys=None)
    response = await answer_of(Client(broker).ask(DescribeConfigsRequest(resources=[resource]), 4))
    (result,) = response.results
    assert (result.error_code, result.error_message) == (ErrorCode.INVALID_REQUEST, message)


@pytest.mark.parametrize("is_cordoned", [False, True])
async def test_a_cordoned_directory_is_described_as_such(
    broker: Broker, *, is_cordoned: bool
) -> None:
    brokers, directory_id = broker.node.image.brokers, broker.directory.directory_id
    cordoned = (directory_id,) if is_cordoned else ()
    brokers[1] = dataclasses.replace(brokers[1], cordoned_directories=cordoned)
    response = await answer_of(Client(broker).ask(DescribeLogDirsRequest(topics=None), 5))
    assert [it.is_cordoned for it in response.results] == [is_cordoned]
