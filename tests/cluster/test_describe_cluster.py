"""`pykbroker cluster describe` on a cluster of three brokers, one of which fails."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

import pytest

from pykbroker.cli.main import main

if TYPE_CHECKING:
    from compat.cluster import Cluster

TOPIC = "described"
KILLED = 3


def describe(cluster: Cluster, *arguments: str) -> str:
    with io.StringIO() as out, redirect_stdout(out):
        assert main(["cluster", "describe", "--bootstrap", cluster.bootstrap, *arguments]) == 0
        return out.getvalue()


def document(cluster: Cluster, *arguments: str) -> Any:
    return json.loads(describe(cluster, "--json", *arguments))


@pytest.mark.slow
def test_a_killed_broker_is_described_with_the_partitions_that_miss_it(cluster: Cluster) -> None:
    cluster.create_topic(TOPIC, {0: (1, 2, 3), 1: (2, 3, 1), 2: (3, 1, 2)}, min_insync_replicas=3)
    healthy = document(cluster, "--topic", TOPIC)
    assert [it["state"] for it in healthy["brokers"]] == ["unfenced"] * 3
    assert [it["leads"] for it in healthy["brokers"]] == [1, 1, 1]
    assert all(it["metadata_lag"] is not None for it in healthy["brokers"])
    assert healthy["problems"] == []
    assert healthy["quorum"]["leader"] == cluster.controller.node_id

    cluster.nodes[KILLED].kill()
    cluster.wait_until_fenced(KILLED)
    cluster.wait_for(
        "the brokers apply it", lambda: document(cluster)["brokers"][KILLED - 1]["fenced"]
    )
    found = document(cluster, "--topic", TOPIC)
    assert found["problem_counts"]["under_min_isr"] == 3
    assert [it["replica"] for problem in found["problems"] for it in problem["missing"]] == [3] * 3
    for problem in found["problems"]:
        (missing,) = problem["missing"]
        assert missing["reason"] == "fenced"
        assert missing["last_fetch_age_ms"] >= 2000
        assert problem["eligible"] == [KILLED]  # the ELR: it has all committed records
    assert "fenced, last metadata fetch" in describe(cluster, "--topic", TOPIC)
    cluster.bring_back()
    cluster.wait_until_in_sync(TOPIC)


@pytest.mark.slow
def test_a_paused_broker_delays_the_description_by_a_few_seconds(cluster: Cluster) -> None:
    cluster.nodes[KILLED].pause()
    found = document(cluster)
    assert found["brokers"][KILLED - 1]["error"] == "did not respond in 3 s"
    cluster.nodes[KILLED].resume()
