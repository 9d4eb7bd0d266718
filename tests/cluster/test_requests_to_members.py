"""Requests to a broker of ours in a cluster get the responses of an Apache Kafka broker.

The brokers have the same metadata and the same roles: both lead, follow and lack partitions.
"""

from __future__ import annotations

import faulthandler
import os
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from compat.cluster import Cluster, Kind
from compat.wire import Wire
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages import (
    create_topics,
    delete_records,
    describe_cluster,
    describe_configs,
    describe_producers,
    describe_topic_partitions,
    elect_leaders,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    write_txn_markers,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from compat.apache import ApacheTools
    from pykbroker_protocol.message import Message

KINDS = os.environ.get("PYKBROKER_CLUSTER_MEMBERS", "apache,own,own")
THEIRS, OURS = 1, 2
TIMEOUT_SECONDS = 30.0
FAILOVER_SECONDS = 180.0
STANDARD_ERROR = 2

LED, FOLLOWED, ABSENT, MISSING = range(4)
"""Indexes of partitions in the topic of a broker: led, followed, without replica, missing."""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def _cluster(
    tmp_path_factory: pytest.TempPathFactory, apache_tools: ApacheTools
) -> Iterator[Cluster]:
    kinds = dict(enumerate(map(Kind, KINDS.split(",")), start=1))
    settings = {"auto.create.topics.enable": "false"}
    directory = tmp_path_factory.mktemp("cluster")
    with Cluster(directory, kinds, tools=apache_tools, settings=settings) as cluster:
        for node, other in ((THEIRS, OURS), (OURS, THEIRS)):
            replicas = {LED: [node, 3], FOLLOWED: [3, node], ABSENT: [3, other]}
            cluster.create_topic(of(node), replicas)
        cluster.wait_for("both brokers know the topics", lambda: knows_topics(cluster))
        yield cluster


def knows_topics(cluster: Cluster) -> bool:
    return not any(
        topic.error_code
        for node in (THEIRS, OURS)
        for topic in metadata_of(cluster, node, 12, of(THEIRS), of(OURS)).topics
    )


def of(node: int) -> str:
    """A topic with the same roles for each of the two brokers."""
    return f"of-{node}"


def ask(cluster: Cluster, node: int, request: Message, version: int) -> Any:
    with Wire(cluster.nodes[node].port) as wire:
        return wire.ask(request, version)


# --- metadata


def metadata_of(cluster: Cluster, node: int, version: int, *names: str) -> Any:
    more = {"allow_auto_topic_creation": False} if version >= 4 else {}
    names = names or (of(THEIRS), of(OURS), "missing", "no/name")
    request = metadata.MetadataRequest(
        topics=[metadata.MetadataRequestTopic(name=name) for name in names], **more
    )
    response = ask(cluster, node, request, version)
    assert version == 0 or response.controller_id in {1, 2, 3}
    return response.replace(
        controller_id=0,
        brokers=sorted(response.brokers, key=lambda it: it.node_id),
        topics=[
            it.replace(partitions=sorted(it.partitions, key=lambda row: row.partition_index))
            for it in sorted(response.topics, key=lambda it: it.name)
        ],
    )


@pytest.mark.parametrize("version", range(14))
def test_metadata_is_the_same(cluster: Cluster, version: int) -> None:
    assert metadata_of(cluster, OURS, version) == metadata_of(cluster, THEIRS, version)


@pytest.mark.parametrize("version", [0, 12])
def test_metadata_is_the_same_while_a_broker_is_fenced(cluster: Cluster, version: int) -> None:
    cluster.nodes[3].kill()
    cluster.wait_until_fenced(3)
    cluster.wait_for(
        "both brokers have the metadata of the fenced broker",
        lambda: (
            metadata_of(cluster, OURS, version) == metadata_of(cluster, THEIRS, version)
            and len(metadata_of(cluster, OURS, version).brokers) == 2
        ),
        timeout=TIMEOUT_SECONDS,
    )
    request = describe_topic_partitions.DescribeTopicPartitionsRequest(topics=())
    ours, theirs = (ask(cluster, node, request, 0) for node in (OURS, THEIRS))
    assert [*ours.topics] == [*theirs.topics]
    cluster_request = describe_cluster.DescribeClusterRequest(
        include_cluster_authorized_operations=False, include_fenced_brokers=True
    )
    described = [
        {
            it.broker_id: (it.port, it.is_fenced)
            for it in ask(cluster, node, cluster_request, 2).brokers
        }
        for node in (OURS, THEIRS)
    ]
    assert described[0] == described[1]
    assert described[0][3][1]


# --- partitions


def offset_of(cluster: Cluster, node: int, index: int, epoch: int, replica: int) -> Any:
    partition = list_offsets.ListOffsetsPartition(
        partition_index=index, current_leader_epoch=epoch, timestamp=-1
    )
    request = list_offsets.ListOffsetsRequest(
        replica_id=replica,
        isolation_level=0,
        topics=[list_offsets.ListOffsetsTopic(name=of(node), partitions=[partition])],
    )
    return ask(cluster, node, request, 9).topics[0].partitions[0]


def end_of_epoch(cluster: Cluster, node: int, index: int, epoch: int) -> Any:
    partition = offset_for_leader_epoch.OffsetForLeaderPartition(
        partition=index, current_leader_epoch=epoch, leader_epoch=0
    )
    topic = offset_for_leader_epoch.OffsetForLeaderTopic(topic=of(node), partitions=[partition])
    request = offset_for_leader_epoch.OffsetForLeaderEpochRequest(replica_id=-2, topics=[topic])
    return ask(cluster, node, request, 4).topics[0].partitions[0]


@pytest.mark.parametrize("index", [LED, FOLLOWED, ABSENT, MISSING])
@pytest.mark.parametrize("epoch", [-1, 0, 9])
def test_offsets_have_the_same_errors(cluster: Cluster, index: int, epoch: int) -> None:
    for replica in (-1, -2):
        ours, theirs = (offset_of(cluster, it, index, epoch, replica) for it in (OURS, THEIRS))
        assert ours == theirs
    ours, theirs = (end_of_epoch(cluster, it, index, epoch) for it in (OURS, THEIRS))
    assert ours == theirs


@pytest.mark.parametrize("index", [LED, FOLLOWED, ABSENT, MISSING])
def test_requests_to_leaders_have_the_same_errors(cluster: Cluster, index: int) -> None:
    def code_of_deletion(node: int) -> int:
        partition = delete_records.DeleteRecordsPartition(partition_index=index, offset=-1)
        topic = delete_records.DeleteRecordsTopic(name=of(node), partitions=[partition])
        request = delete_records.DeleteRecordsRequest(topics=[topic], timeout_ms=3000)
        code: int = ask(cluster, node, request, 2).topics[0].partitions[0].error_code
        return code

    def code_of_producers(node: int) -> int:
        topic = describe_producers.TopicRequest(name=of(node), partition_indexes=[index])
        request = describe_producers.DescribeProducersRequest(topics=[topic])
        code: int = ask(cluster, node, request, 0).topics[0].partitions[0].error_code
        return code

    def code_of_marker(node: int) -> int:
        topic = write_txn_markers.WritableTxnMarkerTopic(name=of(node), partition_indexes=[index])
        marker = write_txn_markers.WritableTxnMarker(
            producer_id=10**9,
            producer_epoch=0,
            transaction_result=False,
            coordinator_epoch=0,
            topics=[topic],
        )
        request = write_txn_markers.WriteTxnMarkersRequest(markers=[marker])
        code: int = ask(cluster, node, request, 1).markers[0].topics[0].partitions[0].error_code
        return code

    for code_of in (code_of_deletion, code_of_producers, code_of_marker):
        assert code_of(OURS) == code_of(THEIRS), code_of.__name__


# --- administrative requests


def test_topics_are_created_with_the_same_responses(cluster: Cluster) -> None:
    def created(node: int, name: str, replicas: int) -> Any:
        topic = create_topics.CreatableTopic(
            name=name, num_partitions=2, replication_factor=replicas, assignments=(), configs=()
        )
        request = create_topics.CreateTopicsRequest(topics=[topic])
        (result,) = ask(cluster, node, request, 7).topics
        return result.replace(name="", topic_id=bytes(16))

    for name, replicas in (("new", 2), ("new", 2), ("wide", 9), ("no/name", 1)):
        ours, theirs = created(OURS, f"{name}-2", replicas), created(THEIRS, f"{name}-1", replicas)
        assert ours.error_code == theirs.error_code
        assert (ours.error_message or "").replace("-2", "-1") == (theirs.error_message or "")
        assert [*(ours.configs or ())] == [*(theirs.configs or ())]


@pytest.mark.parametrize(
    ("kind", "name", "key", "value"),
    [
        (2, "of-1", "retention.ms", "9999999"),
        (2, "of-1", "retention.ms", "x"),
        (2, "missing", "retention.ms", "1"),
        (4, "", "log.retention.ms", "8888888"),
        (4, "", "process.roles", "broker"),
        (4, "3", "log.retention.ms", "1"),
        (4, "x", "log.retention.ms", "1"),
        (99, "", "a", "b"),
    ],
)
def test_properties_are_changed_with_the_same_errors(
    cluster: Cluster, *, kind: int, name: str, key: str, value: str
) -> None:
    resource = incremental_alter_configs.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            incremental_alter_configs.AlterableConfig(name=key, config_operation=0, value=value)
        ],
    )
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[resource], validate_only=False
    )
    ours, theirs = (ask(cluster, node, request, 1).responses[0] for node in (OURS, THEIRS))
    assert ours.error_code == theirs.error_code
    assert (ours.error_message or "").replace("expected 2", "expected 1") == (
        theirs.error_message or ""
    )


@pytest.mark.parametrize("name", ["3", "x"])
def test_properties_of_other_brokers_are_refused_alike(cluster: Cluster, name: str) -> None:
    resource = describe_configs.DescribeConfigsResource(
        resource_type=4, resource_name=name, configuration_keys=None
    )
    request = describe_configs.DescribeConfigsRequest(resources=[resource])
    ours, theirs = (ask(cluster, node, request, 4).results[0] for node in (OURS, THEIRS))
    assert ours.error_code == theirs.error_code == ErrorCode.INVALID_REQUEST
    assert ours.error_message.replace("expected 2", "expected 1") == theirs.error_message


def test_elections_have_the_same_results(cluster: Cluster) -> None:
    request = elect_leaders.ElectLeadersRequest(
        topic_partitions=[
            elect_leaders.TopicPartitions(topic=name, partitions=[0, 9])
            for name in (of(OURS), "missing")
        ]
    )
    ours, theirs = (ask(cluster, node, request, 2) for node in (OURS, THEIRS))
    assert ours == theirs


# --- coordinators and transactions


def coordinator_of(cluster: Cluster, key: str, key_type: int, *, without: int | None = None) -> int:
    """Creates the internal topic with the first request; returns the node that all brokers name."""
    request = find_coordinator.FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while True:
        nodes = [it for it in cluster.nodes if it != without]
        answers = [ask(cluster, it, request, 4).coordinators[0] for it in nodes]
        named: set[int] = {it.node_id for it in answers}
        if not any(it.error_code for it in answers) and len(named) == 1:
            return named.pop()
        assert time.monotonic() < deadline, answers
        time.sleep(0.1)


def keys_by_coordinator(
    cluster: Cluster, key_type: int, nodes: Collection[int] | None = None
) -> dict[int, str]:
    """Returns a key for each of these brokers, or of all, which coordinates it."""
    wanted = set(cluster.nodes if nodes is None else nodes)
    found: dict[int, str] = {}
    for number in range(100):
        key = f"key-{number}"
        found.setdefault(coordinator_of(cluster, key, key_type), key)
        if wanted <= found.keys():
            return found
    raise AssertionError(found)


def test_only_the_coordinator_serves_groups_and_transactional_ids(cluster: Cluster) -> None:
    for coordinator, group in keys_by_coordinator(cluster, 0).items():
        request = heartbeat.HeartbeatRequest(group_id=group, generation_id=1, member_id="x")
        for node in cluster.nodes:
            code = ask(cluster, node, request, 4).error_code
            is_here = node == coordinator
            assert code == (ErrorCode.UNKNOWN_MEMBER_ID if is_here else ErrorCode.NOT_COORDINATOR)
    for coordinator, transactional_id in keys_by_coordinator(cluster, 1).items():
        init = init_producer_id.InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=10_000
        )
        for node in cluster.nodes:
            if node != coordinator:
                assert ask(cluster, node, init, 4).error_code == ErrorCode.NOT_COORDINATOR


def test_producer_ids_are_unique_in_the_cluster(cluster: Cluster) -> None:
    request = init_producer_id.InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=10_000
    )
    found: list[int] = []
    deadline = time.monotonic() + TIMEOUT_SECONDS
    for _ in range(3):
        for node in cluster.nodes:
            while (answer := ask(cluster, node, request, 4)).error_code:
                assert time.monotonic() < deadline, answer  # Apache Kafka refuses the first one
                time.sleep(0.05)
            found.append(answer.producer_id)
    assert len({*found}) == len(found)


def test_transactions_commit_and_abort_across_all_pairs_of_coordinators_and_leaders(
    cluster: Cluster,
) -> None:
    leaders = {index: [node] for index, node in enumerate(cluster.nodes)}
    cluster.create_topic("transfers", leaders)
    expected = []
    for coordinator, transactional_id in keys_by_coordinator(cluster, 1).items():
        producer = Producer(
            {"bootstrap.servers": cluster.bootstrap, "transactional.id": transactional_id}
        )
        producer.init_transactions(TIMEOUT_SECONDS)
        for number, is_committed in enumerate((True, False, True)):
            value = f"{coordinator}-{number}"
            producer.begin_transaction()
            for index in leaders:
                producer.produce("transfers", value, partition=index)
            if is_committed:
                offsets = [TopicPartition("transfers", index, number + 1) for index in leaders]
                consumer = new_consumer(cluster, f"group-of-{coordinator}")
                producer.send_offsets_to_transaction(
                    offsets, consumer.consumer_group_metadata(), TIMEOUT_SECONDS
                )
                consumer.close()
                producer.commit_transaction(TIMEOUT_SECONDS)
                expected += [(index, value) for index in leaders]
            else:
                producer.flush(TIMEOUT_SECONDS)
                producer.abort_transaction(TIMEOUT_SECONDS)
    consumer = new_consumer(cluster, "reader")
    consumer.assign([TopicPartition("transfers", index, 0) for index in leaders])
    assert sorted(committed_in(consumer, len(expected))) == sorted(expected)
    for coordinator in cluster.nodes:
        group = new_consumer(cluster, f"group-of-{coordinator}")
        committed = group.committed(
            [TopicPartition("transfers", index) for index in leaders], TIMEOUT_SECONDS
        )
        assert [it.offset for it in committed] == [3] * len(leaders)
        group.close()
    consumer.close()


def new_consumer(cluster: Cluster, group: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        }
    )


def committed_in(consumer: Consumer, count: int) -> list[tuple[int, str]]:
    """Reads so many records, and those that follow within a second."""
    found: list[tuple[int, str]] = []
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        record = consumer.poll(1.0)
        if record is None:
            if len(found) >= count:
                break
            continue
        assert record.error() is None, record.error()
        value, index = record.value(), record.partition()
        assert value is not None
        assert index is not None
        found.append((index, value.decode()))
    return found


@pytest.mark.skipif(
    "PYKBROKER_COORDINATOR_FAILOVER" not in os.environ,
    reason="on a busy machine the client can hang in send_offsets_to_transaction; cause not found",
)
@pytest.mark.parametrize("victim", [THEIRS, OURS])
def test_groups_and_transactions_continue_when_their_coordinator_is_killed(
    cluster: Cluster, victim: int
) -> None:
    within(FAILOVER_SECONDS, lambda: continue_without_coordinator(cluster, victim))


def within(seconds: float, work: Callable[[], None]) -> None:
    """Fails with the stacks of all threads if a call of the client does not return."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as failure:  # noqa: BLE001 - raised below
            failures.append(failure)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        faulthandler.dump_traceback(STANDARD_ERROR)
        raise AssertionError(f"not done in {seconds:g} s")
    for failure in failures:
        raise failure


def continue_without_coordinator(cluster: Cluster, victim: int) -> None:
    topic = f"survives-{victim}"
    cluster.create_topic(topic, {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]}, min_insync_replicas=2)
    transactional_id = keys_by_coordinator(cluster, 1, {victim})[victim]
    group = keys_by_coordinator(cluster, 0, {victim})[victim]
    cluster.wait_until_in_sync("__transaction_state", "__consumer_offsets")
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "transactional.id": transactional_id,
            "socket.timeout.ms": 5000,
            "reconnect.backoff.max.ms": 500,
        }
    )
    producer.init_transactions(TIMEOUT_SECONDS)
    expected = []
    for number in range(4):
        value = f"after-{number}"
        producer.begin_transaction()
        for index in range(3):
            producer.produce(topic, value, partition=index)
        producer.flush(TIMEOUT_SECONDS)
        if number == 1:  # while the transaction is open
            cluster.nodes[victim].kill()
            cluster.wait_until_fenced(victim)
        consumer = new_consumer(cluster, group)
        producer.send_offsets_to_transaction(
            [TopicPartition(topic, 0, number + 1)],
            consumer.consumer_group_metadata(),
            TIMEOUT_SECONDS,
        )
        consumer.close()
        if number == 2:
            producer.abort_transaction(TIMEOUT_SECONDS)
        else:
            producer.commit_transaction(TIMEOUT_SECONDS)
            expected += [(index, value) for index in range(3)]
    assert coordinator_of(cluster, transactional_id, 1, without=victim) != victim
    reader = new_consumer(cluster, group)
    (committed,) = reader.committed([TopicPartition(topic, 0)], TIMEOUT_SECONDS)
    assert committed.offset == 4
    reader.assign([TopicPartition(topic, index, 0) for index in range(3)])
    assert sorted(committed_in(reader, len(expected))) == sorted(expected)
    reader.close()


def test_a_broker_with_a_new_directory_is_elected_again(cluster: Cluster) -> None:
    node, topic = cluster.nodes[OURS], of(OURS)
    before = cluster.image().brokers[OURS].directories
    cluster.wait_until_in_sync(topic)  # another test may have restarted a broker
    node.stop()
    cluster.wait_until_fenced(OURS)
    cluster.wipe(OURS)
    node.start()
    cluster.wait_until_unfenced(OURS)
    (directory,) = cluster.image().brokers[OURS].directories
    assert directory not in before
    cluster.wait_until_in_sync(topic)
    cluster.wait_for(
        "the metadata has the new directory",
        lambda: cluster.partition(topic, LED).directories[0] == directory,
        timeout=TIMEOUT_SECONDS,
    )
    cluster.lead(topic, {LED: [OURS, 3]})
