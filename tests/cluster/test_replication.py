"""One partition with two replicas, in each arrangement of leader and follower."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.reading import expect_acknowledged_records_on_every_replica
from tests.cluster.workload import Workload

if TYPE_CHECKING:
    from compat.cluster import Cluster

APACHE, OWN, OTHER_OWN = 1, 2, 3


@pytest.mark.slow
@pytest.mark.parametrize(("leader", "follower"), [(APACHE, OWN), (OWN, APACHE), (OWN, OTHER_OWN)])
def test_follower_has_all_records_of_the_leader(
    cluster: Cluster, leader: int, follower: int
) -> None:
    topic = f"pair-{leader}-{follower}"
    cluster.create_topic(topic, {0: (leader, follower)}, min_insync_replicas=2)
    with Workload(cluster.bootstrap, topic, partitions=1) as workload:
        workload.wait_for_progress(100)
    expect_acknowledged_records_on_every_replica(cluster, workload)
