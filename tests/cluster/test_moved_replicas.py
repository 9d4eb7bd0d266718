"""A replica that a reassignment moves away is deleted; when it returns, it is copied again."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from compat.cluster import requests
from tests.cluster.reading import expect_acknowledged_records_on_every_replica
from tests.cluster.workload import Workload

if TYPE_CHECKING:
    from compat.cluster import Cluster

FIRST, SECOND, THIRD = 1, 2, 3

pytestmark = pytest.mark.slow
_names = (f"moved-{number}" for number in itertools.count())


def move(cluster: Cluster, topic: str, *replicas: int) -> None:
    requests.reassign(cluster.controller.controller_port, topic, {0: replicas})
    cluster.wait_for(
        f"replicas of {topic} are {replicas}",
        lambda: (
            cluster.partition(topic).replicas == replicas
            and {*cluster.partition(topic).in_sync} == {*replicas}
        ),
    )


def has_log(cluster: Cluster, node_id: int, topic: str) -> bool:
    return (cluster.nodes[node_id].data_dir / f"{topic}-0").exists()


@pytest.mark.parametrize(
    ("leader", "before", "after"),
    [(FIRST, SECOND, THIRD), (SECOND, FIRST, THIRD), (SECOND, THIRD, FIRST)],
)
def test_log_moves_with_the_replica(cluster: Cluster, leader: int, before: int, after: int) -> None:
    topic = next(_names)
    cluster.create_topic(topic, {0: (leader, before)})
    with Workload(cluster.bootstrap, topic, partitions=1) as workload:
        workload.wait_for_progress(50)
        move(cluster, topic, leader, after)
        cluster.wait_for("the log is deleted", lambda: not has_log(cluster, before, topic))
        workload.wait_for_progress(50)
        move(cluster, topic, leader, before)
        cluster.wait_for("the log is deleted", lambda: not has_log(cluster, after, topic))
        workload.wait_for_progress(50)
    expect_acknowledged_records_on_every_replica(cluster, workload)
