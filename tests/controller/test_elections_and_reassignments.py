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
from tests.controller.decided import replay

HERE, GONE, STRANGER = 1, 2, 9
NOBODY = -1
PLACE = TopicPartition("trucks", 0)


def directory_of(broker_id: int) -> bytes:
    return bytes(15) + bytes([100 + broker_id])


def cluster(
    replicas: tuple[int, ...],
    *,
    leader: int = HERE,
    in_sync: tuple[int, ...] = (HERE,),
    **more: Any,
) -> ClusterImage:
    """This node and one that is gone, and a partition of theirs."""
    image = ClusterImage(cluster_id="c", controller_id=HERE)
    for broker_id in (HERE, GONE):
        image.brokers[broker_id] = BrokerImage(
            id=broker_id,
            epoch=7,
            incarnation_id=bytes(16),
            listeners={},
            security_protocols={},
            rack=None,
            fenced=broker_id == GONE,
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
    decision = elect_leaders(image, [PLACE], election)
    (refusal,) = decision.outcome
    replay(image, decision.records)
    return refusal.code if refusal else image.topics["trucks"].partitions[0]


@pytest.mark.parametrize(
    ("image", "election", "answer"),
    [
        (cluster((HERE, GONE)), ElectionType.PREFERRED, ErrorCode.ELECTION_NOT_NEEDED),
        (cluster((GONE, HERE)), ElectionType.PREFERRED, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (
            cluster((GONE, HERE), in_sync=(GONE, HERE)),
            ElectionType.PREFERRED,
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ),
        (cluster((HERE,)), ElectionType.UNCLEAN, ErrorCode.ELECTION_NOT_NEEDED),
        (
            cluster((GONE,), leader=NOBODY, in_sync=(GONE,)),
            ElectionType.UNCLEAN,
            ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        ),
    ],
)
def test_no_leader_is_elected(
    image: ClusterImage, election: ElectionType, answer: ErrorCode
) -> None:
    assert after_election(image, election) == answer


def test_the_preferred_replica_is_elected() -> None:
    image = cluster((HERE, GONE), leader=GONE, in_sync=(GONE, HERE))
    elected = after_election(image, ElectionType.PREFERRED)
    assert isinstance(elected, PartitionImage)
    assert (elected.leader, elected.leader_epoch, elected.in_sync) == (HERE, 4, (GONE, HERE))


def test_an_unclean_leader_is_the_only_one_in_sync() -> None:
    image = cluster((GONE, HERE), leader=NOBODY, in_sync=(GONE,), last_known=(GONE,))
    elected = after_election(image, ElectionType.UNCLEAN)
    assert isinstance(elected, PartitionImage)
    assert (elected.leader, elected.leader_epoch, elected.in_sync) == (HERE, 4, (HERE,))
    assert elected.last_known == ()


def test_a_partition_named_twice_is_elected_once() -> None:
    image = cluster((HERE, GONE), leader=GONE, in_sync=(GONE, HERE))
    decision = elect_leaders(image, [PLACE, PLACE], ElectionType.PREFERRED)
    assert decision.outcome == [None, None]
    assert len(decision.records) == 1


def after_move(
    image: ClusterImage, replicas: tuple[int, ...] | None, **more: Any
) -> PartitionImage | ErrorCode:
    move = PartitionReassignment(topic="trucks", index=0, replicas=replicas, **more)
    decision = reassign_partitions(image, [move])
    (refusal,) = decision.outcome
    replay(image, decision.records)
    return refusal.code if refusal else image.topics["trucks"].partitions[0]


@pytest.mark.parametrize(
    ("image", "wanted", "answer"),
    [
        (cluster((HERE,)), (), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (cluster((HERE,)), (HERE, HERE), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (cluster((HERE,)), (STRANGER,), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (cluster((HERE,)), (HERE, GONE), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (
            cluster((GONE,), leader=NOBODY, in_sync=(GONE,)),
            (HERE,),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
        (cluster((HERE,)), None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
    ],
)
def test_a_reassignment_is_refused(
    image: ClusterImage, wanted: tuple[int, ...] | None, answer: ErrorCode
) -> None:
    assert after_move(image, wanted) == answer


def test_a_reassignment_to_the_same_replicas_changes_nothing() -> None:
    image = cluster((HERE,))
    (before,) = image.topics["trucks"].partitions
    assert after_move(image, (HERE,)) is before


def test_a_replica_on_a_removed_broker_can_be_removed() -> None:
    moved = after_move(cluster((GONE, HERE)), (HERE,))
    assert isinstance(moved, PartitionImage)
    assert (moved.replicas, moved.in_sync, moved.leader) == ((HERE,), (HERE,), HERE)
    assert moved.directories == (directory_of(HERE),)
    assert moved.leader_epoch == 3, "the leader is the same"


def test_a_reassignment_can_forbid_a_new_replication_factor() -> None:
    image = cluster((HERE, GONE))
    refused = after_move(image, (HERE,), may_change_replication_factor=False)
    assert refused == ErrorCode.INVALID_REPLICATION_FACTOR


def test_a_reassignment_is_cancelled() -> None:
    image = cluster((HERE, GONE), adding=(GONE,))
    moved = after_move(image, None)
    assert isinstance(moved, PartitionImage)
    assert (moved.replicas, moved.adding, moved.removing) == ((HERE,), (), ())


def test_a_reassignment_is_not_cancelled_if_only_the_new_replica_is_in_sync() -> None:
    image = cluster((GONE, HERE), adding=(HERE,), removing=(GONE,))
    assert after_move(image, None) == ErrorCode.INVALID_REPLICA_ASSIGNMENT


@pytest.mark.parametrize(
    ("broker_id", "answer"),
    [
        (STRANGER, ErrorCode.BROKER_ID_NOT_REGISTERED),
        (HERE, ErrorCode.INVALID_REQUEST),
        (GONE, None),
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
            broker_id=GONE,
            incarnation_id=bytes(16),
            listeners={},
            rack=None,
            directories=(directory_of(GONE),),
        )
    )
    await controller.create_topics([NewTopic(name="trucks", assignments={0: (HERE, GONE)})])
    (partition,) = controller.image.topics["trucks"].partitions
    assert partition.replicas == (HERE, GONE)
    assert await controller.reassign_partitions(
        [PartitionReassignment(topic="trucks", index=0, replicas=(HERE,))]
    ) == [None]
    assert await controller.unregister_broker(GONE) is None
    await node.stop(controller)
    again = await node.start()
    (partition,) = again.image.topics["trucks"].partitions
    assert (partition.replicas, partition.in_sync) == ((HERE,), (HERE,))
    assert set(again.image.brokers) == {HERE}
    await node.stop(again)
