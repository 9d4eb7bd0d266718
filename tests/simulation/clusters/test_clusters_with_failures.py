"""Clusters with failures: committed records are never lost and replicas agree.

`make soak SEEDS=1000` runs more seeds; SIMULATION_SEED repeats one.
"""

from __future__ import annotations

import pytest

from pykbroker.testing.simulation import SOFT, Kind, seeds
from tests.simulation.clusters.scenarios import Run, play

pytestmark = pytest.mark.slow

STOPS = (Kind.KILL, Kind.POWER_CUT, Kind.RESTART)
ELECTIONS = (Kind.PAUSE, Kind.PARTITION, Kind.PARTIAL_PARTITION, Kind.CONTROLLER)


@pytest.mark.parametrize("seed", seeds(60))
def test_a_cluster_survives_all_failures(seed: int) -> None:
    play(seed, Run(weak_writers=1))


@pytest.mark.parametrize("seed", seeds(30))
def test_a_cluster_survives_stops_and_power_losses(seed: int) -> None:
    play(seed, Run(kinds=STOPS, every_seconds=2))


@pytest.mark.parametrize("seed", seeds(30))
def test_a_cluster_survives_pauses_and_partitions(seed: int) -> None:
    play(seed, Run(kinds=ELECTIONS, every_seconds=2, weak_writers=1))


@pytest.mark.parametrize("seed", seeds(20))
def test_a_cluster_survives_a_lossy_network(seed: int) -> None:
    play(seed, Run(kinds=SOFT, every_seconds=1))


@pytest.mark.parametrize("seed", seeds(20))
def test_a_cluster_survives_skewed_clocks_and_late_commits(seed: int) -> None:
    play(seed, Run(clock_drift=0.02, commit_delay_seconds=0.3))


@pytest.mark.parametrize("seed", seeds(10))
def test_four_replicas_of_five_brokers_agree(seed: int) -> None:
    play(seed, Run(nodes=5, replicas=4, min_in_sync=3))


@pytest.mark.parametrize("seed", seeds(20))
def test_replicas_agree_after_unclean_elections(seed: int) -> None:
    topic = {"unclean.leader.election.enable": "true"}
    play(seed, Run(min_in_sync=1, unclean=True, topic=topic, weak_writers=1))


@pytest.mark.parametrize("seed", seeds(10))
def test_single_replicas_survive_stops_of_their_process(seed: int) -> None:
    kinds = (*SOFT, Kind.KILL, Kind.PAUSE, Kind.RESTART, Kind.CONTROLLER)
    play(seed, Run(replicas=1, min_in_sync=1, kinds=kinds))
