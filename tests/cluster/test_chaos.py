"""Random failures of brokers under load; `make soak` runs it.

PYKBROKER_CHAOS_SECONDS sets the duration. PYKBROKER_SEED repeats the order of the failures.
"""

from __future__ import annotations

import os
import time
from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.cluster.reading import expect_acknowledged_records_on_every_replica
from tests.cluster.workload import Workload

if TYPE_CHECKING:
    from compat.cluster import Cluster

SECONDS = float(os.environ.get("PYKBROKER_CHAOS_SECONDS", "0"))
SEED = int(os.environ.get("PYKBROKER_SEED", str(time.time_ns() % 1_000_000)))
LEADERS = {0: (1, 2, 3), 1: (2, 3, 1), 2: (3, 1, 2)}
TOPIC = "chaos"


class Failures:
    """One failure at a time, so that two replicas of three can always be in sync."""

    def __init__(self, cluster: Cluster, chance: Random) -> None:
        self.cluster = cluster
        self.chance = chance
        self.victim = 0

    def cause_one(self) -> str:
        self.victim = self.chance.choice([*self.cluster.nodes])
        act = self.chance.choice(
            (self.kill, self.kill_briefly, self.pause, self.pause_briefly, self.stop, self.wipe)
        )
        act()
        return f"{act.__name__} {self.victim}"

    def kill(self) -> None:
        self.cluster.nodes[self.victim].kill()
        self.cluster.wait_until_fenced(self.victim)

    def kill_briefly(self) -> None:
        """The broker registers again while its previous session has not expired."""
        self.cluster.nodes[self.victim].kill()

    def pause(self) -> None:
        self.cluster.nodes[self.victim].pause()
        self.cluster.wait_until_fenced(self.victim)
        time.sleep(self.chance.uniform(0, 3))

    def pause_briefly(self) -> None:
        self.cluster.nodes[self.victim].pause()
        time.sleep(self.chance.uniform(0.1, 3))

    def stop(self) -> None:
        self.cluster.nodes[self.victim].stop()

    def wipe(self) -> None:
        self.kill()
        self.cluster.wipe(self.victim)


@pytest.mark.asked_for_by("PYKBROKER_CHAOS_SECONDS")
def test_acknowledged_records_survive_random_failures(cluster: Cluster) -> None:
    print(f"PYKBROKER_SEED={SEED} PYKBROKER_CHAOS_SECONDS={SECONDS:.0f}")
    chance = Random(SEED)
    failures = Failures(cluster, chance)
    cluster.create_topic(TOPIC, LEADERS, min_insync_replicas=2, segment_ms=5000)
    end = time.monotonic() + SECONDS
    with Workload(cluster.bootstrap, TOPIC, len(LEADERS)) as workload:
        while time.monotonic() < end:
            workload.wait_for_progress(chance.randint(1, 100))
            print(f"{end - time.monotonic():.0f} s left: {failures.cause_one()}")
            cluster.bring_back()
            cluster.wait_until_in_sync(TOPIC)
            if chance.random() < 0.5:
                cluster.lead(TOPIC, LEADERS)
    expect_acknowledged_records_on_every_replica(cluster, workload)
