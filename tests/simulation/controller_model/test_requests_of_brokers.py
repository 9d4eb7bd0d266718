"""The controller model follows the rules of KRaft for requests of brokers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from pykbroker.controller_access import ConfigurationChange, ElectionType, NewTopic, TopicPartition
from pykbroker.metadata.image import TOPIC_RESOURCE
from pykbroker.testing.movable_clock import MovableClock
from pykbroker.testing.simulation.controller_model.model import LeadershipLost
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.frame import write_request
from pykbroker_protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from pykbroker_protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    DirectoryData,
)
from pykbroker_protocol.messages.assign_replicas_to_dirs import PartitionData as AssignedPartition
from pykbroker_protocol.messages.assign_replicas_to_dirs import TopicData as AssignedTopic
from pykbroker_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from pykbroker_protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from pykbroker_protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from pykbroker_protocol.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    PartitionSnapshot,
    SnapshotId,
    TopicSnapshot,
)
from tests.simulation.controller_model.scripted_broker import ScriptedBroker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pykbroker.metadata.image import PartitionImage
    from pykbroker.testing.simulation.controller_model import RunningController, StartController

T = "orders"


class Cluster:
    """A controller with scripted brokers."""

    def __init__(self, controller: RunningController, brokers: list[ScriptedBroker]) -> None:
        self.controller = controller
        self.model = controller.model
        self.brokers = {it.node_id: it for it in brokers}

    async def topic(self, *replicas: int, **configuration: str) -> None:
        named = {name.replace("_", "."): value for name, value in configuration.items()}
        (made,) = await self.model.create_topics(
            [NewTopic(name=T, assignments={0: replicas}, configuration=named)]
        )
        assert not hasattr(made, "code"), made

    @property
    def partition(self) -> PartitionImage:
        return self.model.image.topics[T].partitions[0]

    def is_led(self, leader: int, in_sync: tuple[int, ...], eligible: tuple[int, ...]) -> bool:
        """Compares leader, in-sync set and eligible leader replicas."""
        found = self.partition
        return (found.leader, found.in_sync, found.eligible) == (leader, in_sync, eligible)


@pytest.fixture
async def cluster(controller_model: StartController) -> AsyncIterator[Cluster]:
    """Three unfenced brokers and eligible leader replicas."""
    controller = await controller_model()
    cluster = Cluster(controller, [ScriptedBroker(controller, it) for it in (1, 2, 3)])
    for broker in cluster.brokers.values():
        await broker.start()
    yield cluster
    for broker in cluster.brokers.values():
        await broker.close()


# --- membership


async def test_a_broker_is_unfenced_when_it_has_read_its_registration(
    controller_model: StartController,
) -> None:
    broker = ScriptedBroker(await controller_model(), 1)
    await broker.connect()
    assert await broker.register() == 0
    before = await broker.heartbeat(broker.epoch - 1)
    assert (before.is_caught_up, before.is_fenced) == (False, True)
    after = await broker.heartbeat(broker.epoch)
    assert (after.is_caught_up, after.is_fenced) == (True, False)
    image = await broker.follow()
    assert image.brokers[1].epoch == broker.epoch
    assert not image.brokers[1].fenced
    await broker.close()


async def test_another_incarnation_is_rejected_while_the_session_is_valid(cluster: Cluster) -> None:
    broker = cluster.brokers[1]
    assert await broker.register() == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    broker.starts -= 1
    before = broker.epoch
    assert await broker.register(is_same=True) == 0
    assert broker.epoch == before


async def test_a_broker_with_a_missing_feature_is_rejected(
    controller_model: StartController,
) -> None:
    controller = await controller_model(features={"metadata.version": 30, "share.version": 1})
    broker = ScriptedBroker(controller, 1)
    await broker.connect()
    assert await broker.register() == ErrorCode.UNSUPPORTED_VERSION
    await broker.close()


async def test_a_stale_broker_epoch_is_rejected(cluster: Cluster) -> None:
    cluster.brokers[1].epoch -= 1
    assert (await cluster.brokers[1].heartbeat()).error_code == ErrorCode.STALE_BROKER_EPOCH


async def test_a_silent_broker_is_fenced_after_the_session_timeout(
    controller_model: StartController,
) -> None:
    clock = MovableClock()
    controller = await controller_model(clock=clock)
    cluster = Cluster(controller, [ScriptedBroker(controller, it) for it in (1, 2)])
    for broker in cluster.brokers.values():
        await broker.start()
    await cluster.topic(1, 2)
    await clock.advance(seconds=8)
    await cluster.brokers[2].heartbeat()
    assert not cluster.model.image.brokers[1].fenced
    await clock.advance(seconds=2)
    assert cluster.model.image.brokers[1].fenced
    assert not cluster.model.image.brokers[2].fenced
    assert cluster.is_led(2, (2,), ())
    assert await cluster.brokers[1].register() == 0
    for broker in cluster.brokers.values():
        await broker.close()


async def test_a_controlled_shutdown_moves_leaders_first(cluster: Cluster) -> None:
    await cluster.topic(1, 2)
    leaving, other = cluster.brokers[1], cluster.brokers[2]
    first = await leaving.heartbeat(requests_shutdown=True)
    assert not first.should_shut_down
    assert cluster.is_led(2, (2,), ())
    for broker in (other, cluster.brokers[3]):
        await broker.heartbeat(0)
    assert not (await leaving.heartbeat(requests_shutdown=True)).should_shut_down
    for broker in (other, cluster.brokers[3]):
        await broker.heartbeat()
    assert (await leaving.heartbeat(requests_shutdown=True)).should_shut_down
    assert cluster.model.image.brokers[1].fenced


# --- leaders, in-sync sets, eligible leader replicas


async def test_replicas_below_min_insync_stay_eligible_and_can_lead(cluster: Cluster) -> None:
    await cluster.topic(1, 2, 3, min_insync_replicas="2")
    cluster.model.fence(2)
    assert cluster.is_led(1, (1, 3), ())
    cluster.model.fence(3)
    assert cluster.is_led(1, (1,), (3,))
    cluster.model.fence(1)
    assert cluster.is_led(-1, (), (3, 1))
    assert cluster.partition.last_known == (1,)
    await cluster.brokers[2].heartbeat()
    assert cluster.is_led(-1, (), (3, 1)), "replica 2 is neither in sync nor eligible"
    await cluster.brokers[3].heartbeat()
    assert cluster.is_led(3, (3,), (1,))


async def test_an_unclean_restart_ends_eligibility(cluster: Cluster) -> None:
    await cluster.topic(1, 2, min_insync_replicas="2")
    cluster.model.fence(2)
    assert cluster.is_led(1, (1,), (2,))
    await cluster.brokers[2].start()
    assert cluster.is_led(1, (1,), ())


async def test_a_clean_restart_keeps_eligibility(cluster: Cluster) -> None:
    await cluster.topic(1, 2, min_insync_replicas="2")
    cluster.model.fence(2)
    await cluster.brokers[2].start(previous_epoch=cluster.brokers[2].epoch)
    assert cluster.is_led(1, (1,), (2,))


async def test_without_eligible_replicas_the_last_replica_stays_in_sync(
    controller_model: StartController,
) -> None:
    controller = await controller_model(features={"metadata.version": 30})
    cluster = Cluster(controller, [ScriptedBroker(controller, it) for it in (1, 2)])
    for broker in cluster.brokers.values():
        await broker.start()
    await cluster.topic(1, 2)
    cluster.model.fence(2)
    cluster.model.fence(1)
    assert cluster.is_led(-1, (1,), ())
    await cluster.brokers[2].heartbeat()
    assert cluster.is_led(-1, (1,), ())
    await cluster.brokers[1].heartbeat()
    assert cluster.is_led(1, (1,), ())
    for broker in cluster.brokers.values():
        await broker.close()


async def test_an_unclean_election_needs_the_topic_property(cluster: Cluster) -> None:
    await cluster.topic(1, 2, unclean_leader_election_enable="true")
    cluster.model.fence(2)
    cluster.model.fence(1)
    await cluster.brokers[2].heartbeat()
    assert cluster.is_led(2, (2,), ())
    assert cluster.partition.leader_recovery_state == 1


async def test_a_preferred_leader_is_elected(cluster: Cluster) -> None:
    await cluster.topic(1, 2)
    cluster.model.fence(1)
    await cluster.brokers[1].heartbeat()
    preferred = [TopicPartition(T, 0)], ElectionType.PREFERRED
    (refused,) = await cluster.model.elect_leaders(*preferred)
    assert refused is not None
    assert refused.code == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    await cluster.brokers[2].propose(T, {2: -1, 1: -1})
    assert await cluster.model.elect_leaders(*preferred) == [None]
    assert cluster.is_led(1, (2, 1), ())


async def test_an_in_sync_set_shrinks_and_expands(cluster: Cluster) -> None:
    await cluster.topic(1, 2)
    leader, follower = cluster.brokers[1], cluster.brokers[2]
    shrunk = await leader.propose(T, {1: leader.epoch})
    assert not isinstance(shrunk, int)
    assert (shrunk.error_code, tuple(shrunk.isr), shrunk.partition_epoch) == (0, (1,), 1)
    expanded = await leader.propose(T, {1: leader.epoch, 2: follower.epoch})
    assert not isinstance(expanded, int)
    assert (tuple(expanded.isr), expanded.leader_epoch, expanded.partition_epoch) == ((1, 2), 0, 2)
    assert cluster.is_led(1, (1, 2), ())


REFUSED: dict[str, tuple[dict[str, Any], ErrorCode]] = {
    "old leader epoch": ({"leader_epoch": -1}, ErrorCode.FENCED_LEADER_EPOCH),
    "unknown leader epoch": ({"leader_epoch": 5}, ErrorCode.NOT_CONTROLLER),
    "old partition epoch": ({"partition_epoch": -1}, ErrorCode.INVALID_UPDATE_VERSION),
    "unknown partition epoch": ({"partition_epoch": 9}, ErrorCode.NOT_CONTROLLER),
    "without the leader": ({"in_sync": {2: -1}}, ErrorCode.INVALID_REQUEST),
    "not a replica": ({"in_sync": {1: -1, 3: -1}}, ErrorCode.INVALID_REQUEST),
    "another incarnation": ({"in_sync": {1: -1, 2: 1}}, ErrorCode.INELIGIBLE_REPLICA),
}


@pytest.mark.parametrize("reason", REFUSED)
async def test_a_proposed_in_sync_set_is_rejected(cluster: Cluster, reason: str) -> None:
    await cluster.topic(1, 2)
    changes, code = REFUSED[reason]
    given: dict[str, Any] = {"in_sync": {1: -1, 2: -1}, **changes}
    result = await cluster.brokers[1].propose(T, **given)
    assert not isinstance(result, int)
    assert result.error_code == code
    assert cluster.partition.partition_epoch == 0


async def test_a_fenced_replica_cannot_be_in_sync(cluster: Cluster) -> None:
    await cluster.topic(1, 2)
    cluster.model.fence(2)
    result = await cluster.brokers[1].propose(T, {1: -1, 2: -1})
    assert not isinstance(result, int)
    assert result.error_code == ErrorCode.INELIGIBLE_REPLICA


async def test_only_the_leader_changes_the_in_sync_set(cluster: Cluster) -> None:
    await cluster.topic(1, 2)
    result = await cluster.brokers[2].propose(T, {2: -1})
    assert not isinstance(result, int)
    assert result.error_code == ErrorCode.INVALID_REQUEST
    assert await cluster.brokers[1].propose(T, {1: -1}, broker_epoch=0) == (
        ErrorCode.STALE_BROKER_EPOCH
    )


# --- the metadata log


async def test_uncommitted_records_are_above_the_high_watermark(cluster: Cluster) -> None:
    cluster.model.commit_delay_seconds = None
    creating = asyncio.ensure_future(cluster.topic(1, 2))
    broker = cluster.brokers[1]
    end = cluster.model.log.end_offset
    fetched = await broker.fetch(end, epoch=1, last_epoch=1, wait_ms=10_000)
    assert fetched.records
    assert fetched.high_watermark == end
    assert not creating.done()
    cluster.model.commit()
    await creating
    assert T in (await broker.follow()).topics


async def test_a_new_controller_epoch_can_drop_uncommitted_records(cluster: Cluster) -> None:
    model, broker = cluster.model, cluster.brokers[1]
    committed = model.log.end_offset
    model.commit_delay_seconds = None
    creating = asyncio.ensure_future(cluster.topic(1, 2))
    await asyncio.sleep(0)
    end = model.log.end_offset
    model.elect(keeps_uncommitted=False)
    with pytest.raises(LeadershipLost):
        await creating
    assert T not in model.image.topics
    fenced = await broker.fetch(end, epoch=1, last_epoch=1)
    assert fenced.error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert (fenced.current_leader.leader_id, fenced.current_leader.leader_epoch) == (3000, 2)
    diverging = await broker.fetch(end, epoch=2, last_epoch=1)
    assert diverging.diverging_epoch.epoch == 1
    assert diverging.diverging_epoch.end_offset == committed


async def test_a_snapshot_replaces_the_log(cluster: Cluster) -> None:
    await cluster.topic(1, 2)
    cluster.model.take_snapshot()
    broker = cluster.brokers[1]
    fetched = await broker.fetch(0, epoch=1)
    end = cluster.model.log.end_offset
    assert fetched.snapshot_id.end_offset == end
    data = b""
    while True:
        response = await broker.connection.request(
            FetchSnapshotRequest(
                replica_id=1,
                max_bytes=100,
                topics=[
                    TopicSnapshot(
                        name="__cluster_metadata",
                        partitions=[
                            PartitionSnapshot(
                                partition=0,
                                current_leader_epoch=1,
                                snapshot_id=SnapshotId(end_offset=end, epoch=1),
                                position=len(data),
                            )
                        ],
                    )
                ],
            ),
            FetchSnapshotResponse,
        )
        part = response.topics[0].partitions[0]
        assert part.error_code == 0
        data += bytes(part.unaligned_records)
        if len(data) == part.size:
            break
    assert cluster.model.log.snapshot is not None
    assert data == cluster.model.log.snapshot.data
    assert (await broker.fetch(end, epoch=1, last_epoch=1)).diverging_epoch.epoch == -1


async def test_a_controller_that_is_not_active_names_the_active_one(
    controller_model: StartController,
) -> None:
    controller = await controller_model(controller_ids=(1, 2))
    broker = ScriptedBroker(controller, 7)
    await broker.connect(1)
    assert await broker.register() == ErrorCode.NOT_CONTROLLER
    fetched = await broker.fetch(0)
    assert fetched.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert fetched.current_leader.leader_id == 1
    described = await broker.connection.request(
        DescribeClusterRequest(include_cluster_authorized_operations=False, endpoint_type=2),
        DescribeClusterResponse,
    )
    assert described.controller_id == 1
    assert [f"{it.host}:{it.port}" for it in described.brokers] == controller.addresses
    controller.model.elect()
    assert await broker.register() == 0
    await broker.close()


# --- other requests


async def test_blocks_of_producer_ids_do_not_overlap(cluster: Cluster) -> None:
    broker = cluster.brokers[1]
    request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=broker.epoch)
    blocks = [
        await broker.connection.request(request, AllocateProducerIdsResponse) for _ in range(2)
    ]
    assert [(it.producer_id_start, it.producer_id_len) for it in blocks] == [
        (0, 1000),
        (1000, 1000),
    ]


async def test_a_directory_is_assigned(cluster: Cluster) -> None:
    await cluster.topic(1, 2)
    broker, directory = cluster.brokers[1], b"another-director"
    response = await broker.connection.request(
        AssignReplicasToDirsRequest(
            broker_id=1,
            broker_epoch=broker.epoch,
            directories=[
                DirectoryData(
                    id=directory,
                    topics=[
                        AssignedTopic(
                            topic_id=cluster.model.image.topics[T].id,
                            partitions=[AssignedPartition(partition_index=0)],
                        )
                    ],
                )
            ],
        ),
        AssignReplicasToDirsResponse,
    )
    assert response.error_code == 0
    assert cluster.partition.directories[0] == directory


async def test_an_admin_request_in_an_envelope_is_executed(cluster: Cluster) -> None:
    create = CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name="forwarded", num_partitions=2, replication_factor=3, assignments=(), configs=()
            )
        ],
        timeout_ms=1_000,
    )
    response = await cluster.brokers[1].connection.request(
        EnvelopeRequest(
            request_data=b"".join(write_request(create, 7, 5, "client")),
            request_principal=None,
            client_host_address=b"\x7f\0\0\1",
        ),
        EnvelopeResponse,
    )
    assert response.error_code == 0
    assert bytes(response.response_data or b"")[:4] == (5).to_bytes(4, "big")
    created = cluster.model.image.topics["forwarded"]
    assert [len(it.replicas) for it in created.partitions] == [3, 3]


async def test_a_configuration_is_changed(cluster: Cluster) -> None:
    await cluster.topic(1, 2)
    change = ConfigurationChange(
        resource_type=TOPIC_RESOURCE, name=T, operations=[("min.insync.replicas", 0, "2")]
    )
    assert await cluster.model.alter_configurations([change]) == [None]
    cluster.model.fence(2)
    assert cluster.is_led(1, (1,), (2,))


async def test_a_broker_in_controlled_shutdown_is_not_elected(cluster: Cluster) -> None:
    await cluster.topic(1, 2)
    cluster.model.fence(1)
    await cluster.brokers[1].heartbeat()
    await cluster.brokers[2].propose(T, {2: -1, 1: -1})
    other = NewTopic(name="other", assignments={0: (1,)})
    await cluster.model.create_topics([other])  # broker 1 leads it, so its shutdown takes time
    await cluster.brokers[1].heartbeat(requests_shutdown=True)
    (refused,) = await cluster.model.elect_leaders([TopicPartition(T, 0)], ElectionType.PREFERRED)
    assert refused is not None
    assert refused.code == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
