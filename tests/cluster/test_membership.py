"""Two brokers of ours under a controller of Apache Kafka: joining, sessions, refusals."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import time
from typing import TYPE_CHECKING

import pytest

from compat.apache.cluster_nodes import FEATURES, ApacheController
from compat.broker_process import BrokerFailedError, BrokerProcess
from compat.cluster import Cluster, Kind, requests
from pykbroker.address import Address
from pykbroker.client.broker_connection import BrokerConnection
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.storage.batches import batch_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from compat.apache import ApacheTools

FIRST, SECOND = 4, 5
PAUSE_SECONDS = 5.0
"""Longer than the session of 3 seconds."""

PRODUCE_VERSION = 12

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def _cluster(
    tmp_path_factory: pytest.TempPathFactory, apache_tools: ApacheTools
) -> Iterator[Cluster]:
    kinds = dict.fromkeys((FIRST, SECOND), Kind.OWN)
    with Cluster(tmp_path_factory.mktemp("members"), kinds, tools=apache_tools) as cluster:
        yield cluster


def log_of(cluster: Cluster, node_id: int) -> str:
    return cluster.nodes[node_id].log_file.read_text()


def epoch_of(cluster: Cluster, node_id: int) -> int:
    return cluster.image().brokers[node_id].epoch


def clean_epoch(cluster: Cluster, node_id: int) -> int:
    mark = cluster.nodes[node_id].data_dir / ".kafka_cleanshutdown"
    return int(json.loads(mark.read_text())["brokerEpoch"])


def joining(controller: ApacheController) -> tuple[str, ...]:
    address = f"127.0.0.1:{controller.controller_port}"
    return ("--roles", "broker", "--node-id", "4", "--controllers", address)


def test_tools_list_the_brokers(cluster: Cluster) -> None:
    bootstrap = cluster.nodes[SECOND].bootstrap
    versions = cluster.tools.tool("api-versions", "--bootstrap-server", bootstrap).stdout
    endpoints = cluster.tools.tool(
        "cluster", "list-endpoints", "--bootstrap-server", bootstrap
    ).stdout
    for node_id, node in cluster.nodes.items():
        assert f"{node.bootstrap} (id: {node_id} rack: null isFenced: false)" in versions
        assert re.search(rf"^{node_id} +127\.0\.0\.1 +{node.port} ", endpoints, re.MULTILINE)


def test_a_broker_that_is_killed_registers_again_after_its_session(cluster: Cluster) -> None:
    before = epoch_of(cluster, FIRST)
    cluster.nodes[FIRST].kill()
    cluster.nodes[FIRST].start()
    assert "another process is registered as broker 4; retrying" in log_of(cluster, FIRST)
    assert epoch_of(cluster, FIRST) > before
    assert cluster.is_unfenced(FIRST)


def test_a_controlled_shutdown_moves_leaderships_without_the_end_of_a_session(
    cluster: Cluster,
) -> None:
    cluster.create_topic("leaving", {0: (FIRST, SECOND)})
    epoch = epoch_of(cluster, FIRST)
    began = time.monotonic()
    assert cluster.nodes[FIRST].stop() == 0
    assert time.monotonic() - began < 3 * PAUSE_SECONDS
    assert clean_epoch(cluster, FIRST) == epoch
    partition = cluster.partition("leaving")
    assert (partition.leader, partition.in_sync) == (SECOND, (SECOND,))
    assert (
        "its session has timed out"
        not in cluster.controller.log_file.read_text().rpartition(
            f"unfence has been granted because it has caught up with the offset of its register "
            f"broker record {epoch}"
        )[2]
    )
    cluster.bring_back()
    cluster.wait_until_in_sync("leaving")


def test_a_paused_broker_returns_with_the_same_registration(cluster: Cluster) -> None:
    cluster.create_topic("paused", {0: (FIRST, SECOND)})
    epoch = epoch_of(cluster, FIRST)
    cluster.nodes[FIRST].pause()
    cluster.wait_until_fenced(FIRST)
    assert cluster.partition("paused").leader == SECOND
    cluster.nodes[FIRST].resume()
    cluster.wait_until_unfenced(FIRST)
    cluster.wait_until_in_sync("paused")
    assert epoch_of(cluster, FIRST) == epoch
    assert "event loop: blocked for" in log_of(cluster, FIRST)


async def test_a_leader_that_was_paused_past_its_session_refuses_acks_1_of_connected_producers(
    cluster: Cluster,
) -> None:
    """The request is in the socket when the process continues, before any heartbeat."""
    cluster.create_topic("zombie", {0: (FIRST, SECOND)})
    node = cluster.nodes[FIRST]
    connection = await BrokerConnection.open(Address("127.0.0.1", node.port))

    def produce() -> asyncio.Future[ProduceResponse]:
        partition = PartitionProduceData(index=0, records=batch_bytes([b"late"]))
        request = ProduceRequest(
            acks=1,
            timeout_ms=1000,
            topic_data=[TopicProduceData(name="zombie", partition_data=[partition])],
        )
        return asyncio.ensure_future(
            connection.request(request, ProduceResponse, version_max=PRODUCE_VERSION)
        )

    def code(response: ProduceResponse) -> int:
        return response.responses[0].partition_responses[0].error_code

    try:
        assert code(await produce()) == ErrorCode.NONE
        node.pause()
        cluster.wait_until_fenced(FIRST)
        late = [produce() for _ in range(3)]
        await asyncio.sleep(0.2)
        node.resume()
        codes = {code(await it) for it in late}
    finally:
        await connection.close()
    assert codes == {ErrorCode.NOT_LEADER_OR_FOLLOWER}
    cluster.wait_until_unfenced(FIRST)


def test_a_guest_gets_partitions_only_by_assignment(cluster: Cluster) -> None:
    guest = cluster.nodes[FIRST]
    assert isinstance(guest, BrokerProcess)
    guest.stop()
    without = guest.arguments
    guest.arguments = (*without, "--guest")
    try:
        cluster.bring_back()
        bootstrap = ("--bootstrap-server", cluster.nodes[SECOND].bootstrap)
        placed = cluster.tools.tool(
            "topics", *bootstrap, "--create", "--topic", "placed", "--partitions", "6",
            "--replication-factor", "1",
        )  # fmt: skip
        assert placed.returncode == 0, placed.stdout
        cluster.wait_for("topic placed", lambda: "placed" in cluster.image().topics)
        assert {it.replicas for it in cluster.partitions("placed")} == {(SECOND,)}
        refused = cluster.tools.tool(
            "topics", *bootstrap, "--create", "--topic", "two", "--replication-factor", "2"
        )
        assert refused.returncode != 0
        cluster.create_topic("assigned", {0: (FIRST, SECOND)})
        assert cluster.partition("assigned").leader == FIRST
    finally:
        guest.stop()
        guest.arguments = without
        cluster.bring_back()


@pytest.mark.oracle
def test_quotas_that_arrive_while_running_end_the_broker_cleanly(
    apache_tools: ApacheTools,
    tmp_path: Path,
    show_on_failure: Callable[[str, Callable[[], str]], None],
) -> None:
    controller = ApacheController(tmp_path / "controller", node_id=100, tools=apache_tools)
    show_on_failure("controller", controller.log_tail)
    with controller:
        broker = BrokerProcess(tmp_path / "broker", arguments=joining(controller)).start()
        requests.alter_default_quota(controller.controller_port, "producer_byte_rate", 1000.0)
        deadline = time.monotonic() + 30
        while broker.is_running and time.monotonic() < deadline:
            time.sleep(0.05)
        assert broker.exit_code == 1
        assert "quota" in broker.log_file.read_text()
        assert "controlled shutdown ended" in broker.log_file.read_text()
        assert (broker.data_dir / ".kafka_cleanshutdown").exists()
        with pytest.raises(BrokerFailedError, match="quota"):
            broker.start()


@pytest.mark.oracle
def test_the_command_in_the_refusal_of_new_features_lets_the_broker_join(
    apache_tools: ApacheTools,
    tmp_path: Path,
    show_on_failure: Callable[[str, Callable[[], str]], None],
) -> None:
    controller = ApacheController(tmp_path / "controller", node_id=100, tools=apache_tools)
    finalized = {**FEATURES, "share.version": 1, "streams.version": 1}
    controller.format_options = tuple(
        argument
        for name, level in finalized.items()
        for argument in ("--feature", f"{name}={level}")
    )
    show_on_failure("controller", controller.log_tail)
    arguments = joining(controller)
    with controller:
        with pytest.raises(BrokerFailedError, match="exit code 2") as refusal:
            BrokerProcess(tmp_path / "broker", arguments=arguments).start()
        found = re.search(r"run kafka-features\.sh (.*)", str(refusal.value))
        assert found, str(refusal.value)
        changed = apache_tools.tool("features", *shlex.split(found[1]))
        assert changed.returncode == 0, changed.stdout + changed.stderr
        with BrokerProcess(tmp_path / "broker", arguments=arguments) as broker:
            assert "cluster=" in broker.ready_line
