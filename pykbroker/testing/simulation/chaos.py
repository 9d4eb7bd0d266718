"""Random failures at random times: kind, target and duration come from the seed."""

from __future__ import annotations

import asyncio
import errno
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, Protocol

from pykbroker.testing.simulation.link import Link

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from pykbroker.testing.simulation.controllers import SimulatedControllers
    from pykbroker.testing.simulation.network import Network
    from pykbroker.testing.simulation.node import SimulatedNode
    from pykbroker.testing.simulation.trace import Trace


class Kind(Enum):
    """Kinds of failures."""

    RESET = auto()
    """A connection is reset and its data in flight is lost."""
    PARTITION = auto()
    """A host is partitioned from all others for a while, in one direction or both."""
    SLOW_LINK = auto()
    """A host has high latency, low bandwidth and loss for a while."""
    KILL = auto()
    """A broker's process is killed and started again."""
    POWER_CUT = auto()
    """A broker's machine loses power and starts again."""
    DISK_FULL = auto()
    """A broker's disk is full for a while."""
    DISK_ERROR = auto()
    """A broker's disk fails with EIO for a while."""
    RESTART = auto()
    """A broker is stopped cleanly and started again."""
    PAUSE = auto()
    """The programs of a broker's host stop for a while, as by SIGSTOP."""
    PARTIAL_PARTITION = auto()
    """Two nodes of a cluster, brokers or controllers, cannot reach each other for a while."""
    WIPE = auto()
    """A broker's machine loses power and gets an empty disk."""
    ELECTION = auto()
    """Preferred leaders are elected."""
    CONTROLLER = auto()
    """Another controller becomes active; uncommitted metadata can be lost."""


SOFT: Final = (Kind.RESET, Kind.PARTITION, Kind.SLOW_LINK)
"""Network failures only."""

SURVIVABLE: Final = (
    *SOFT,
    Kind.KILL,
    Kind.DISK_FULL,
    Kind.DISK_ERROR,
    Kind.RESTART,
)
"""Failures of one broker that lose no acknowledged record, even if nothing is flushed."""

CLUSTER: Final = (
    *SOFT,
    Kind.KILL,
    Kind.POWER_CUT,
    Kind.DISK_FULL,
    Kind.RESTART,
    Kind.PAUSE,
    Kind.PARTIAL_PARTITION,
    Kind.WIPE,
    Kind.ELECTION,
    Kind.CONTROLLER,
)
"""Failures of a cluster that lose no acknowledged record of a replicated partition."""

OUTAGE_SECONDS_MAX: Final = 8.0
PARTITION_SECONDS_MAX: Final = 15.0
DISK_SECONDS_MAX: Final = 4.0


PAUSE_SECONDS_MAX: Final = 30.0


class World(Protocol):
    network: Network
    trace: Trace
    controllers: SimulatedControllers | None

    def pause(self, target: SimulatedNode) -> None: ...
    def resume(self, target: SimulatedNode) -> None: ...


class Admission(Protocol):
    """Refuses failures after which records can be lost."""

    def admits(self, kind: Kind, node: SimulatedNode) -> bool: ...


class Chaos:
    def __init__(
        self,
        world: World,
        chance: random.Random,
        *,
        kinds: Sequence[Kind],
        nodes: Sequence[SimulatedNode],
        every_seconds: float,
        admission: Admission | None = None,
    ) -> None:
        self.happened = 0
        self._world = world
        self._admission = admission
        self._network = world.network
        self._trace = world.trace
        self._chance = chance
        self._kinds = kinds
        self._nodes = nodes
        self._every_seconds = every_seconds

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._chance.expovariate(1 / self._every_seconds))
            await self._inject(self._chance.choice(self._kinds))
            self.happened += 1

    async def repair(self) -> None:
        """Heals the network, clears disk errors and starts all brokers."""
        self._network.heal()
        for node in self._nodes:
            self._world.resume(node)
            node.disk.refuse(None)
            await node.start_if_stopped()
        self._trace.note("chaos ends")

    async def _inject(self, kind: Kind) -> None:
        match kind:
            case Kind.RESET:
                self._reset_one()
            case Kind.PARTITION:
                await self._cut_off()
            case Kind.SLOW_LINK:
                await self._slow_down()
            case Kind.KILL | Kind.POWER_CUT | Kind.WIPE | Kind.RESTART:
                await self._take_out(kind, self._chance.choice(self._nodes))
            case Kind.PAUSE:
                await self._pause(self._chance.choice(self._nodes))
            case Kind.DISK_FULL:
                await self._refuse(errno.ENOSPC)
            case Kind.DISK_ERROR:
                await self._refuse(errno.EIO)
            case Kind.PARTIAL_PARTITION | Kind.ELECTION | Kind.CONTROLLER:
                await self._inject_in_cluster(kind)

    async def _inject_in_cluster(self, kind: Kind) -> None:
        match kind:
            case Kind.PARTIAL_PARTITION:
                await self._separate()
            case Kind.ELECTION:
                await self._elect_preferred_leaders()
            case Kind.CONTROLLER:
                self._elect_controller()

    def _reset_one(self) -> None:
        ends = self._network.ends_at()
        if ends:
            end = self._chance.choice(ends)
            self._trace.note(f"connection of {end.host} and {end.other.host} is reset")
            self._network.reset(end)

    def _hosts(self) -> list[str]:
        return sorted({it.host for it in self._network.ends_at()} | {it.name for it in self._nodes})

    async def _cut_off(self) -> None:
        hosts = self._hosts()
        one = self._chance.choice(hosts)
        others = set(hosts) - {one}
        some, rest = self._chance.choice((({one}, others), (others, {one})))
        one_way = self._chance.random() < 1 / 3
        await self._partition(some, rest, one_way=one_way)

    async def _separate(self) -> None:
        controllers = self._world.controllers
        others = [it.name for it in self._nodes]
        one = self._chance.choice(others)
        others.remove(one)
        sides = others if controllers is None else [*others, *controllers.hosts, "controllers"]
        other = self._chance.choice(sides)
        rest = {other}
        if controllers is not None and other == "controllers":
            rest = set(controllers.hosts)
        await self._partition({one}, rest, one_way=self._chance.random() < 1 / 3)

    async def _partition(self, some: set[str], rest: set[str], *, one_way: bool) -> None:
        self._trace.note(f"partition: {sorted(some)} from {sorted(rest)}; {one_way=}")
        self._network.partition(some, rest, one_way=one_way)
        await asyncio.sleep(self._chance.uniform(0, PARTITION_SECONDS_MAX))
        self._trace.note("network healed")
        self._network.heal()

    async def _slow_down(self) -> None:
        one = self._chance.choice(self._hosts())
        link = Link(
            latency_seconds=self._chance.uniform(0, 0.5),
            jitter_seconds=self._chance.uniform(0, 1),
            loss=self._chance.uniform(0, 0.3),
            cuts=0.5,
            bytes_per_second=10 ** self._chance.uniform(3.5, 7),
        )
        self._trace.note(f"{one} has {link}")
        for other in self._hosts():
            self._network.set_link(one, other, link)
        await asyncio.sleep(self._chance.uniform(0, PARTITION_SECONDS_MAX))
        self._trace.note("network healed")
        self._network.heal()

    async def _take_out(self, kind: Kind, node: SimulatedNode) -> None:
        if not node.is_running:
            return  # another failure of the same broker
        if self._admission is not None and not self._admission.admits(kind, node):
            return
        self._world.resume(node)
        if kind is Kind.RESTART:
            await node.stop()
        else:
            await (node.kill() if kind is Kind.KILL else node.lose_power())
        if kind is Kind.WIPE:
            node.wipe()
        await asyncio.sleep(self._chance.uniform(0, OUTAGE_SECONDS_MAX))
        await node.start_if_stopped()

    async def _pause(self, node: SimulatedNode) -> None:
        self._world.pause(node)
        await asyncio.sleep(self._chance.uniform(0, PAUSE_SECONDS_MAX))
        self._world.resume(node)

    async def _elect_preferred_leaders(self) -> None:
        if self._world.controllers is not None:
            self._trace.note("preferred leaders are elected")
            await self._world.controllers.elect_preferred_leaders()

    def _elect_controller(self) -> None:
        if self._world.controllers is not None:
            self._world.controllers.elect(keeps_uncommitted=self._chance.random() < 0.5)

    async def _refuse(self, number: int) -> None:
        node = self._chance.choice(self._nodes)
        self._trace.note(f"disk of {node.name} fails with {errno.errorcode[number]}")
        node.disk.refuse(number)
        await asyncio.sleep(self._chance.uniform(0, DISK_SECONDS_MAX))
        self._trace.note(f"disk of {node.name} works again")
        node.disk.refuse(None)
