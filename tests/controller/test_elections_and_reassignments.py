"""Elections, reassignments and unregistration in metadata of a larger cluster."""

from __future__ import annotations

from typing import Any

import pytest

from pykbroker.controller.brokers import unregister_broker
from pykbroker.controller.elections import elect_leaders
from pykbroker.controller.reassignments import reassign_partitions
from pykbroker.controller_access import (
    BrokerRegistration,
    ElectionType,
    NewTopic,
    PartitionReassignment,
    TopicPartition,
)
from pykbroker.metadata.image import BrokerImage, ClusterImage, PartitionImage, TopicImage
from pykbroker_protocol.errors import ErrorCode
from tests.controller.unsliced import replay

HERE, REMOVED, UNKNOWN = 1, 2, 9
NO_BROKER = -1
PARTITION = TopicPartition("trucks", 0)


def directory_of(broker_id: int) -> bytes:
    return bytes(15) + bytes([100 + broker_id])


def cluster(
    replicas: tuple[int, ...],
    *,
    leader: int = HERE,
    in_sync: tuple[int, ...] = (HERE,),
    **more: Any,
) -> ClusterImage:
    """This node, a fenced broker, and a partition of both."""
    image = ClusterImage(cluster_id="c", controller_id=HERE)
    for broker_id in (HERE, REMOVED):
        image.brokers[broker_id] = BrokerImage(
            id=broker_id,
            epoch=7,
            incarnation_id=bytes(16),
            listeners={},
            security_protocols={},
            rack=None,
            fenced=broker_id == REMOVED,
            directories=(directory_of(broker_id),),
            features={},
        )
    partition = PartitionImage(
        index=0,
        replicas=replicas,
        in_sync=in_sync,
        leader=leader,
        leader_epoch=3,
        partition_epoch=4,
        directories=tuple(directory_of(it) for it in replicas),
        **more,
    )
    topic = TopicImage(name="trucks", id=bytes(15) + b"t", partitions=(partition,))
    image.topics[topic.name] = image.topics_by_id[topic.id] = topic
    return image


def after_election(image: ClusterImage, election: ElectionType) -> PartitionImage | ErrorCode:
    decision = elect_leaders(image, [PARTITION], election)
    (refusal,) = decision.outcome
    replay(image, decision.records)
    return refusal.code if refusal else image.topics["trucks"].partitions[0]


@pytest.mark.parametrize(
    ("image", "election", "answer"),
    [
        (cluster((HERE, REMOVED)), ElectionType.PREFERRED, ErrorCode.ELECTION_NOT_NEEDED),
        (
            cluster((REMOVED, HERE)),
            ElectionType.PREFERRED,
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ),
        (
            cluster((REMOVED, HERE), in_sync=(REMOVED, HERE)),
            ElectionType.PREFERRED,
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ),
        (cluster((HERE,)), ElectionType.UNCLEAN, ErrorCode.ELECTION_NOT_NEEDED),
        (
            cluster((REMOVED,), leader=NO_BROKER, in_sync=(REMOVED,)),
            ElectionType.UNCLEAN,
            ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        ),
    ],
)
def test_an_election_that_cannot_change_the_leader_is_refused(
    image: ClusterImage, election: ElectionType, answer: ErrorCode
) -> None:
    assert after_election(image, election) == answer


def test_the_preferred_replica_is_elected() -> None:
    image = cluster((HERE, REMOVED), leader=REMOVED, in_sync=(REMOVED, HERE))
    elected = after_election(image, ElectionType.PREFERRED)
    assert isinstance(elected, PartitionImage)
    assert (elected.leader, elected.leader_epoch, elected.in_sync) == (HERE, 4, (REMOVED, HERE))


def test_an_unclean_leader_is_the_only_one_in_sync() -> None:
    image = cluster((REMOVED, HERE), leader=NO_BROKER, in_sync=(REMOVED,), last_known=(REMOVED,))
    elected = after_election(image, ElectionType.UNCLEAN)
    assert isinstance(elected, PartitionImage)
    assert (elected.leader, elected.leader_epoch, elected.in_sync) == (HERE, 4, (HERE,))
    assert elected.last_known == ()


def test_a_partition_named_twice_is_elected_once() -> None:
    image = cluster((HERE, REMOVED), leader=REMOVED, in_sync=(REMOVED, HERE))
    decision = elect_leaders(image, [PARTITION, PARTITION], ElectionType.PREFERRED)
    assert decision.outcome == [None, None]
    assert len(decision.records) == 1


def after_reassignment(
    image: ClusterImage, replicas: tuple[int, ...] | None, **more: Any
) -> PartitionImage | ErrorCode:
    reassignment = PartitionReassignment(topic="trucks", index=0, replicas=replicas, **more)
    decision = reassign_partitions(image, [reassignment])
    (refusal,) = decision.outcome
    replay(image, decision.records)
    return refusal.code if refusal else image.topics["trucks"].partitions[0]


@pytest.mark.parametrize(
    ("image", "target", "answer"),
    [
        (cluster((HERE,)), (), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (cluster((HERE,)), (HERE, HERE), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (cluster((HERE,)), (UNKNOWN,), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (cluster((HERE,)), (HERE, REMOVED), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (
            cluster((REMOVED,), leader=NO_BROKER, in_sync=(REMOVED,)),
            (HERE,),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
        (cluster((HERE,)), None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
    ],
)
def test_a_reassignment_is_refused(
    image: ClusterImage, target: tuple[int, ...] | None, answer: ErrorCode
) -> None:
    assert after_reassignment(image, target) == answer


def test_a_reassignment_to_the_same_replicas_changes_nothing() -> None:
    image = cluster((HERE,))
    (before,) = image.topics["trucks"].partitions
    assert after_reassignment(image, (HERE,)) is before


def test_a_replica_on_a_removed_broker_can_be_removed() -> None:
    changed = after_reassignment(cluster((REMOVED, HERE)), (HERE,))
    assert isinstance(changed, PartitionImage)
    assert (changed.replicas, changed.in_sync, changed.leader) == ((HERE,), (HERE,), HERE)
    assert changed.directories == (directory_of(HERE),)
    assert changed.leader_epoch == 3, "the leader is the same"


def test_a_reassignment_that_forbids_a_new_replication_factor_is_refused() -> None:
    image = cluster((HERE, REMOVED))
    refused = after_reassignment(image, (HERE,), may_change_replication_factor=False)
    assert refused == ErrorCode.INVALID_REPLICATION_FACTOR


def test_a_reassignment_is_cancelled() -> None:
    image = cluster((HERE, REMOVED), adding=(REMOVED,))
    changed = after_reassignment(image, None)
    assert isinstance(changed, PartitionImage)
    assert (changed.replicas, changed.adding, changed.removing) == ((HERE,), (), ())


def test_a_reassignment_is_not_cancelled_if_only_the_new_replica_is_in_sync() -> None:
    image = cluster((REMOVED, HERE), adding=(HERE,), removing=(REMOVED,))
    assert after_reassignment(image, None) == ErrorCode.INVALID_REPLICA_ASSIGNMENT


@pytest.mark.parametrize(
    ("broker_id", "answer"),
    [
        (UNKNOWN, ErrorCode.BROKER_ID_NOT_REGISTERED),
        (HERE, ErrorCode.INVALID_REQUEST),
        (REMOVED, None),
    ],
)
def test_only_a_fenced_broker_is_unregistered(broker_id: int, answer: ErrorCode | None) -> None:
    image = cluster((HERE,))
    decision = unregister_broker(image, broker_id)
    replay(image, decision.records)
    assert (decision.outcome.code if decision.outcome else None) == answer
    assert (broker_id in image.brokers) == (broker_id == HERE)


async def test_removed_replicas_and_brokers_stay_removed_after_a_restart(node: Any) -> None:
    controller = await node.start()
    await controller.register_broker(
        BrokerRegistration(
            broker_id=REMOVED,
            incarnation_id=bytes(16),
            listeners={},
            rack=None,
            directories=(directory_of(REMOVED),),
        )
    )
    await controller.create_topics([NewTopic(name="trucks", assignments={0: (HERE, REMOVED)})])
    (partition,) = controller.image.topics["trucks"].partitions
    assert partition.replicas == (HERE, REMOVED)
    assert await controller.reassign_partitions(
        [PartitionReassignment(topic="trucks", index=0, replicas=(HERE,))]
    ) == [None]
    assert await controller.unregister_broker(REMOVED) is None
    await node.stop(controller)
    again = await node.start()
    (partition,) = again.image.topics["trucks"].partitions
    assert (partition.replicas, partition.in_sync) == ((HERE,), (HERE,))
    assert set(again.image.brokers) == {HERE}
    await node.stop(again)
