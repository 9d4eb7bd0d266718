"""Failures of one of three brokers lose and duplicate nothing that acks=all acknowledged.

Every broker leads one partition and follows the others, so each failure meets a leader and a
follower of every arrangement of Apache Kafka and PyKBroker.
"""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING

import pytest

from tests.cluster.reading import expect_acknowledged_records_on_every_replica
from tests.cluster.workload import Workload

if TYPE_CHECKING:
    from compat.cluster import Cluster

LEADERS = {0: (1, 2, 3), 1: (2, 3, 1), 2: (3, 1, 2)}
APACHE, OWN = 1, 2
_names = (f"t{number}" for number in itertools.count())


@pytest.fixture
def topic(cluster: Cluster) -> str:
    name = next(_names)
    cluster.create_topic(name, LEADERS, min_insync_replicas=2)
    return name


def workload_on(cluster: Cluster, topic: str) -> Workload:
    return Workload(cluster.bootstrap, topic, len(LEADERS))


@pytest.mark.slow
@pytest.mark.parametrize("victim", [APACHE, OWN])
def test_killed_broker(cluster: Cluster, topic: str, victim: int) -> None:
    with workload_on(cluster, topic) as workload:
        workload.wait_for_progress()
        cluster.nodes[victim].kill()
        cluster.wait_until_fenced(victim)
        workload.wait_for_progress()
        cluster.bring_back()
        cluster.wait_until_in_sync(topic)
        workload.wait_for_progress()
    expect_acknowledged_records_on_every_replica(cluster, workload)


@pytest.mark.slow
@pytest.mark.parametrize("victim", [APACHE, OWN])
def test_paused_broker(cluster: Cluster, topic: str, victim: int) -> None:
    with workload_on(cluster, topic) as workload:
        workload.wait_for_progress()
        cluster.nodes[victim].pause()
        cluster.wait_until_fenced(victim)
        workload.wait_for_progress()
        cluster.bring_back()
        cluster.wait_until_in_sync(topic)
        workload.wait_for_progress()
    expect_acknowledged_records_on_every_replica(cluster, workload)


@pytest.mark.slow
@pytest.mark.parametrize("victim", [APACHE, OWN])
def test_controlled_shutdown(cluster: Cluster, topic: str, victim: int) -> None:
    with workload_on(cluster, topic) as workload:
        workload.wait_for_progress()
        before = time.monotonic()
        cluster.nodes[victim].stop()
        assert time.monotonic() - before < 10
        assert all(it.leader not in (victim, -1) for it in cluster.partitions(topic))
        workload.wait_for_progress()
        cluster.bring_back()
        cluster.wait_until_in_sync(topic)
        workload.wait_for_progress()
    expect_acknowledged_records_on_every_replica(cluster, workload)


@pytest.mark.slow
@pytest.mark.parametrize("victim", [APACHE, OWN])
def test_wiped_follower_is_refilled(cluster: Cluster, topic: str, victim: int) -> None:
    with workload_on(cluster, topic) as workload:
        workload.wait_for_progress()
        cluster.nodes[victim].kill()
        cluster.wait_until_fenced(victim)
        cluster.wipe(victim)
        cluster.bring_back()
        cluster.wait_until_in_sync(topic)
        workload.wait_for_progress()
    expect_acknowledged_records_on_every_replica(cluster, workload)


@pytest.mark.slow
def test_all_brokers_killed_at_once(cluster: Cluster, topic: str) -> None:
    """The replicas that the controller fences last lead again, with all that is acknowledged."""
    with workload_on(cluster, topic) as workload:
        workload.wait_for_progress()
        for node in cluster.nodes.values():
            node.kill()
        cluster.bring_back()
        cluster.wait_until_in_sync(topic)
        workload.wait_for_progress()
    expect_acknowledged_records_on_every_replica(cluster, workload)
