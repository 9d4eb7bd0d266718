"""Console tools of Apache Kafka against a cluster, and the files of its replicas."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from compat.cluster import requests
from tests.cluster.reading import expect_acknowledged_records_on_every_replica
from tests.cluster.workload import Workload

if TYPE_CHECKING:
    from pathlib import Path

    from compat.cluster import Cluster

LEADERS = {0: (1, 2, 3), 1: (2, 3, 1), 2: (3, 1, 2)}
RECORDS = 150
SEGMENT_MS = 700
SEGMENTS_MIN = 3
TOOL_SECONDS_MAX = 60

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def topic(_cluster: Cluster) -> str:
    """A topic whose leaders changed, with several segments per replica."""
    name = "written"
    _cluster.create_topic(name, LEADERS, min_insync_replicas=2, segment_ms=SEGMENT_MS)
    with Workload(_cluster.bootstrap, name, len(LEADERS)) as workload:
        for replicas in ((2, 3, 1), (3, 1, 2), (1, 2, 3)):
            _cluster.lead(name, {0: replicas})
            workload.wait_for_progress(RECORDS // 3)
    expect_acknowledged_records_on_every_replica(_cluster, workload)
    _cluster.lead(name, LEADERS)
    return name


def run(cluster: Cluster, tool: str, *arguments: object, through: int | None = None) -> str:
    """Runs a tool against one broker, or against all, of which it selects one."""
    bootstrap = cluster.bootstrap if through is None else cluster.nodes[through].bootstrap
    completed = cluster.tools.tool(tool, "--bootstrap-server", bootstrap, *arguments)
    assert completed.returncode == 0, completed.stdout + completed.stderr
    return completed.stdout


def segments(cluster: Cluster, node_id: int, topic: str, index: int) -> list[Path]:
    return sorted((cluster.nodes[node_id].data_dir / f"{topic}-{index}").glob("*.log"))


def test_logs_of_all_replicas_are_byte_identical(cluster: Cluster, topic: str) -> None:
    """Segments can begin at other offsets: a follower rolls before all batches of a Fetch."""
    for index, replicas in LEADERS.items():
        logs = []
        for node_id in replicas:
            files = segments(cluster, node_id, topic, index)
            assert len(files) >= SEGMENTS_MIN
            logs.append(b"".join(it.read_bytes() for it in files))
        assert logs[0] == logs[1] == logs[2], f"replicas of {topic}-{index} differ"


def test_dump_log_reads_the_segments_of_every_replica(cluster: Cluster, topic: str) -> None:
    for index, replicas in LEADERS.items():
        outputs = []
        for node_id in replicas:
            output = cluster.tools.dump_log(*segments(cluster, node_id, topic, index))
            assert "isvalid: false" not in output
            batches = [it for it in output.splitlines() if it.startswith("baseOffset: ")]
            outputs.append([re.sub(r" position: \d+", "", it) for it in batches])
        assert outputs[0]
        assert outputs[0] == outputs[1] == outputs[2]


def test_replica_verification_finds_no_lag(cluster: Cluster, topic: str) -> None:
    command = cluster.tools.command(
        "replica-verification",
        *("--broker-list", cluster.bootstrap),
        *("--topics-include", topic, "--time", "-2", "--report-interval-ms", "500"),
    )
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert process.stdout is not None
        reports = []
        for line in process.stdout:
            reports += re.findall(r"max lag is (\d+) for partition .* among (\d+) partitions", line)
            assert "differ" not in line, line
            if len(reports) == 2:
                break
        assert reports == [("0", "3")] * 2
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=TOOL_SECONDS_MAX)


def test_metadata_quorum_lists_brokers_as_observers_without_lag(cluster: Cluster) -> None:
    def observers() -> dict[int, int]:
        output = run(cluster, "metadata-quorum", "describe", "--replication")
        rows = [line.split() for line in output.splitlines() if "Observer" in line]
        return {int(row[0]): int(row[3]) for row in rows}

    cluster.wait_for(
        "observers have no lag", lambda: observers() == dict.fromkeys(cluster.nodes, 0)
    )


def test_metadata_quorum_status_is_answered_by_every_broker(cluster: Cluster) -> None:
    for node_id in cluster.nodes:
        output = run(cluster, "metadata-quorum", "describe", "--status", through=node_id)
        assert re.search(rf"^LeaderId:\s+{cluster.controller.node_id}$", output, re.MULTILINE)


@pytest.mark.parametrize("through", [1, 2])
def test_leader_election_tool_elects_the_preferred_replica(
    cluster: Cluster, topic: str, through: int
) -> None:
    for replicas in ((2, 3, 1), (1, 2, 3)):
        requests.reassign(cluster.controller.controller_port, topic, {0: replicas})
        output = run(
            cluster,
            "leader-election",
            *("--election-type", "preferred", "--topic", topic, "--partition", 0),
            through=through,
        )
        assert f"completed leader election (PREFERRED) for partitions {topic}-0" in output
        assert cluster.partition(topic).leader == replicas[0]


def test_log_dirs_reports_equal_sizes_without_lag(cluster: Cluster, topic: str) -> None:
    output = run(cluster, "log-dirs", "--describe", "--topic-list", topic)
    found = json.loads(output.splitlines()[-1])
    rows = {
        (broker["broker"], row["partition"]): (row["size"], row["offsetLag"])
        for broker in found["brokers"]
        for directory in broker["logDirs"]
        for row in directory["partitions"]
    }
    for index, replicas in LEADERS.items():
        reported = {rows[node_id, f"{topic}-{index}"] for node_id in replicas}
        size = sum(it.stat().st_size for it in segments(cluster, replicas[0], topic, index))
        assert reported == {(size, 0)}


def test_topics_tool_reports_no_under_replicated_partition(cluster: Cluster, topic: str) -> None:
    assert run(cluster, "topics", "--describe", "--under-replicated-partitions").strip() == ""
    assert run(cluster, "topics", "--describe", "--topic", topic).count("Leader:") == len(LEADERS)


def test_cluster_tool_lists_all_brokers_as_unfenced(cluster: Cluster) -> None:
    for node in cluster.nodes.values():
        arguments = ("--bootstrap-server", node.bootstrap, "--include-fenced-brokers")
        completed = cluster.tools.tool("cluster", "list-endpoints", *arguments)
        assert len(re.findall(r"\bunfenced\b", completed.stdout)) == len(cluster.nodes), completed
