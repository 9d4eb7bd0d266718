"""The controllers of a simulated cluster: servers of one controller model, each on its own host."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from pykbroker.controller_access import ElectionType, TopicPartition
from pykbroker.testing.simulation.controller_model.model import ControllerModel, LeadershipLost
from pykbroker.testing.simulation.controller_model.server import ControllerServer
from pykbroker.testing.simulation.host_processes import start_on

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pykbroker.clock import Clock, Randomness
    from pykbroker.testing.simulation.trace import Trace
    from pykbroker.testing.simulation.virtual_loop import VirtualLoop

PORT = 9093


class SimulatedControllers:
    """A quorum that never loses its log. `elect` moves the leadership to another host."""

    @classmethod
    async def start(
        cls,
        loop: VirtualLoop,
        *,
        count: int,
        clock: Clock,
        randomness: Randomness,
        trace: Trace,
        **options: Any,
    ) -> Self:
        """Options are those of ControllerModel."""
        numbers = range(3001, 3001 + count)
        model = ControllerModel(
            clock=clock, randomness=randomness, controller_ids=tuple(numbers), **options
        )
        model.note = trace.note
        controllers = cls(model, [f"controller-{it}" for it in numbers], trace)
        for number, host in zip(numbers, controllers.hosts, strict=True):
            starting = ControllerServer.start(model, number, host=host, port=PORT)
            await start_on(loop, host, starting)
        return controllers

    def __init__(self, model: ControllerModel, hosts: Sequence[str], trace: Trace) -> None:
        self.model = model
        self.hosts = list(hosts)
        self._trace = trace

    @property
    def bootstrap(self) -> str:
        """The value of `controller.quorum.bootstrap.servers`."""
        return ",".join(f"{host}:{PORT}" for host in self.hosts)

    def elect(self, *, keeps_uncommitted: bool = True) -> None:
        """Begins a new controller epoch on the next host."""
        self.model.elect(keeps_uncommitted=keeps_uncommitted)
        self._trace.note(f"controller {self.model.leader_id} leads epoch {self.model.epoch}")

    async def elect_preferred_leaders(self) -> None:
        """Elects the first replica of each partition, if it is in sync."""
        partitions = [
            TopicPartition(topic.name, partition.index)
            for topic in self.model.image.topics.values()
            for partition in topic.partitions
        ]
        with suppress(LeadershipLost):
            await self.model.elect_leaders(partitions, ElectionType.PREFERRED)
