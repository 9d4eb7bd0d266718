"""Complete runs of a cluster for a seed. A violated invariant raises an AssertionError."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pykbroker.controller_access import NewTopic
from pykbroker.testing.history import check
from pykbroker.testing.simulation import CLUSTER, Kind, Simulation
from pykbroker_protocol.errors import Refusal
from tests.simulation.clusters.clients import (
    TOPIC,
    ClusterClients,
    Seen,
    read_all,
    watch,
    write,
    write_idempotent,
)
from tests.simulation.clusters.invariants import (
    Observations,
    UncleanStops,
    differences,
    is_in_sync,
    observe_answers,
    observe_elections,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pykbroker.testing.simulation import SimulatedNode

SESSION_SECONDS = 4.0
RECOVERY_SECONDS_MAX = 180.0
WRITING_SECONDS_MAX = 600.0
COMPARED_EVERY_SECONDS = 5.0

# Short intervals give more elections in the same virtual time, long waits fewer requests.
BROKER = {
    "broker.session.timeout.ms": int(SESSION_SECONDS * 1000),
    "broker.heartbeat.interval.ms": 1_000,
    "replica.fetch.wait.max.ms": 1_000,
    "replica.fetch.backoff.ms": 200,
    "log.roll.ms": 10_000,
}


@dataclass(frozen=True, kw_only=True)
class Run:
    """The size and the failures of a run."""

    nodes: int = 3
    controllers: int = 2
    partitions: int = 2
    replicas: int = 3
    min_in_sync: int = 2
    plain_writers: int = 1
    idempotent_writers: int = 1
    weak_writers: int = 0
    """Producers with acks=1; their records can be lost."""
    records: int = 40
    pause_seconds: float = 1.5
    read_seconds: float = 1.2
    kinds: Sequence[Kind] = CLUSTER
    every_seconds: float = 3.0
    clock_drift: float = 0.0
    commit_delay_seconds: float = 0.0
    lag_seconds: float = 3.0
    """`replica.lag.time.max.ms`"""
    topic: dict[str, str] = field(default_factory=dict)
    unclean: bool = False


class ClusterRun:
    """One run: a cluster, its clients and the observations."""

    def __init__(self, world: Simulation, run: Run) -> None:
        self.world = world
        self.run = run
        self.nodes: list[SimulatedNode] = []
        self.found = Observations()
        self.seen = Seen()

    async def play(self) -> None:
        await self.start()
        async with self.world.chaos(
            *self.run.kinds, every_seconds=self.run.every_seconds, admission=self.stops
        ):
            await self.write()
        await self.recover()
        await read_all(self.clients)
        self.verify()

    async def start(self) -> None:
        world, run = self.world, self.run
        controllers = await world.add_controllers(
            run.controllers, session_timeout_seconds=SESSION_SECONDS
        )
        self.model = controllers.model
        chance = world.chance_of("clocks")
        starting = [
            world.add_member(
                number,
                {**BROKER, "replica.lag.time.max.ms": int(run.lag_seconds * 1000)},
                clock_offset_ms=round(chance.uniform(-1, 1) * 1e6 * (run.clock_drift > 0)),
                clock_rate=1 + chance.uniform(-1, 1) * run.clock_drift,
            )
            for number in range(1, run.nodes + 1)
        ]
        self.nodes = list(await asyncio.gather(*starting))
        self.stops = UncleanStops(world, self.nodes, run.min_in_sync)
        observe_answers(world, self.nodes, self.found)
        observe_elections(world, self.found)
        assignments = {
            index: tuple(1 + (index + it) % run.nodes for it in range(run.replicas))
            for index in range(run.partitions)
        }
        topic = NewTopic(
            name=TOPIC,
            assignments=assignments,
            configuration={"min.insync.replicas": str(run.min_in_sync), **run.topic},
        )
        (made,) = await self.model.create_topics([topic])
        assert not isinstance(made, Refusal), made
        self.model.commit_delay_seconds = run.commit_delay_seconds
        self.clients = ClusterClients(
            self.nodes,
            world.chance_of("clients"),
            world.clock,
            run.partitions,
            run.pause_seconds,
            run.read_seconds,
        )

    async def write(self) -> None:
        world, run = self.world, self.run
        reading = world.start("reader", watch(self.clients, self.seen))
        comparing = world.start("comparison", self.compare())
        writing = [
            *(
                world.start(f"plain-{it}", write(self.clients, run.records))
                for it in range(run.plain_writers)
            ),
            *(
                world.start(f"idempotent-{it}", write_idempotent(self.clients, run.records))
                for it in range(run.idempotent_writers)
            ),
            *(
                world.start(f"weak-{it}", write(self.clients, run.records, acks=1))
                for it in range(run.weak_writers)
            ),
        ]
        try:
            async with asyncio.timeout(WRITING_SECONDS_MAX):
                await asyncio.gather(*writing)
        except TimeoutError:
            raise AssertionError("a producer is not finished") from None
        finally:
            reading.cancel()
            comparing.cancel()

    async def compare(self) -> None:
        while True:
            await asyncio.sleep(COMPARED_EVERY_SECONDS)
            if self.run.unclean:
                continue  # a replica that does not know the unclean election keeps lost records
            self.found.violations += differences(self.nodes, self.run.partitions)

    async def recover(self) -> None:
        """Waits until all replicas are in sync and have all records."""
        deadline = self.world.seconds + RECOVERY_SECONDS_MAX
        while not self.is_recovered():
            assert self.world.seconds < deadline, f"the cluster does not recover: {self.state()}"
            await asyncio.sleep(0.5)

    def is_recovered(self) -> bool:
        if not all(is_in_sync(self.model, number) for number in range(1, self.run.nodes + 1)):
            return False
        for index, partition in enumerate(self.model.image.topics[TOPIC].partitions):
            replicas = [self.nodes[it - 1] for it in partition.replicas]
            ends = {it.high_watermark(TOPIC, index) for it in replicas}
            ends |= {it.log_end(TOPIC, index) for it in replicas}
            if len(ends) != 1 or -1 in ends:
                return False
        return True

    def state(self) -> str:
        rows = [
            f"{partition}; high watermarks and log ends: "
            + str(
                {
                    it.name: (it.high_watermark(TOPIC, index), it.log_end(TOPIC, index))
                    for it in self.nodes
                }
            )
            for index, partition in enumerate(self.model.image.topics[TOPIC].partitions)
        ]
        return "\n".join(rows)

    def verify(self) -> None:
        self.found.violations += differences(self.nodes, self.run.partitions)
        if not self.run.unclean:
            self.found.violations += self.seen.violations
            self.found.violations += [str(it) for it in check(self.clients.history)]
        assert not self.found.violations, "\n".join(self.found.violations[:10])


def play(seed: int, run: Run) -> ClusterRun:
    with Simulation(seed) as world:
        playing = ClusterRun(world, run)
        world.run(playing.play())
        return playing
