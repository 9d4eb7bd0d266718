"""A world of brokers, clients and accidents in one event loop, decided by one number."""

from __future__ import annotations

import asyncio
import random
from contextlib import ExitStack, asynccontextmanager, contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self, TypeVar

from pykbroker.testing.broker_options import parse_topics
from pykbroker.testing.simulation.aiokafka_patches import aiokafka_in_our_time
from pykbroker.testing.simulation.chaos import SURVIVABLE, Chaos, Kind
from pykbroker.testing.simulation.clock import SeededChance, VirtualClock
from pykbroker.testing.simulation.disk import CrashingDisk
from pykbroker.testing.simulation.host_processes import kill_all, start_on
from pykbroker.testing.simulation.hosts import THIS_HOST
from pykbroker.testing.simulation.network import Network
from pykbroker.testing.simulation.node import SimulatedNode
from pykbroker.testing.simulation.patched_runtime import surroundings
from pykbroker.testing.simulation.seeds import how_to_repeat, new_seed
from pykbroker.testing.simulation.simulated_environment import simulated_environment
from pykbroker.testing.simulation.trace import Trace
from pykbroker.testing.simulation.virtual_loop import NeverEnds, VirtualLoop
from pykbroker.testing.temporary_directory import make_directory, remove_directory

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator
    from types import TracebackType

    from pykbroker.testing.broker_options import Config, Topics
    from pykbroker.testing.simulation.chaos import Kind
    from pykbroker.testing.simulation.link import Link

T = TypeVar("T")

DAYS_MAX = 31.0
"""Of virtual time: as long as a story goes on unless it says that it needs more."""


class Simulation:
    """Real brokers and asyncio clients, virtual time, and a network and disks that fail.

    The same seed gives the same story. Without one, it is that of the variable SIMULATION_SEED of
    the environment, or a new one; an error that leaves the simulation tells which it was.
    """

    def __init__(self, seed: int | None = None) -> None:
        self.seed = new_seed() if seed is None else seed
        self._ending = ExitStack()
        self._nodes: list[SimulatedNode] = []
        self._failures: list[AssertionError] = []

    def __enter__(self) -> Self:
        self.directory = make_directory()
        self._ending.callback(remove_directory, self.directory)
        self.trace = Trace(lambda: self._loop.seconds)
        """What happened, and when."""
        self.network = Network(self.chance_of("network"), self.trace)
        self._loop = VirtualLoop(self.chance_of("threads"), self.network)
        self.clock = VirtualClock(self._loop)
        self.network.moved = self.clock.something_arrived
        self._ending.enter_context(surroundings(self._loop, self.chance_of("programs")))
        self._ending.enter_context(aiokafka_in_our_time())
        self._ending.callback(self._loop.close)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            with self._told():
                self._loop.run_until_complete(self._end())
        finally:
            self._ending.close()
        if error is not None:
            self._tell(error)

    def run(self, story: Coroutine[Any, Any, T], *, days_max: float = DAYS_MAX) -> T:
        """Until the story ends; what it has started goes on in the next one.

        An assertion that failed in a program of a host fails the story, too. A story that lasts
        longer than so many virtual days waits for something that does not come: NeverEnds.
        """
        with self._told(), self._loop.ending_within(days_max):
            try:
                ended = self._loop.run_until_complete(story)
            except NeverEnds as never:
                never.add_note(f"it began {days_max:g} days ago: run(story, days_max=…) gives more")
                self._raise_failures()  # they may be what it waits for
                raise
            self._raise_failures()
            return ended

    def _raise_failures(self) -> None:
        for failure in self._failures:
            raise failure

    # --- who is there

    def broker(
        self, topics: Topics = (), config: Config | None = None, *, name: str | None = None
    ) -> SimulatedNode:
        """A broker that serves, before the story begins; in a story it is `await add_broker(…)`."""
        return self.run(self.add_broker(topics, config, name=name))

    async def add_broker(
        self, topics: Topics = (), config: Config | None = None, *, name: str | None = None
    ) -> SimulatedNode:
        name = name or f"kafka-{len(self._nodes) + 1}"
        place = self.directory / name
        place.mkdir()
        disk = CrashingDisk(place, self.chance_of(f"disk {name}"), self.clock.now_ms)
        environment = simulated_environment(
            clock=self.clock,
            randomness=SeededChance(self.chance_of(f"broker {name}")),
            network=self.network,
            disk=disk,
            trace=self.trace,
        )
        node = SimulatedNode(
            name,
            self._loop,
            environment,
            network=self.network,
            disk=disk,
            trace=self.trace,
            topics=parse_topics(topics),
            config=config or {},
        )
        self._nodes.append(node)
        await node.start()
        return node

    def start(self, host: str, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """A program on a host of its own, which can be cut off and killed."""
        program = start_on(self._loop, host, work)
        program.add_done_callback(self._look_at)
        return program

    def _look_at(self, ended: asyncio.Task[Any]) -> None:
        failure = None if ended.cancelled() else ended.exception()
        if isinstance(failure, AssertionError):
            self._failures.append(failure)

    @contextmanager
    def on(self, host: str) -> Iterator[None]:
        """What is started inside lives on that host."""
        token = THIS_HOST.set(host)
        try:
            yield
        finally:
            THIS_HOST.reset(token)

    # --- what befalls them

    async def kill(self, target: SimulatedNode | str) -> None:
        """A broker, or all programs of a host, end as by SIGKILL."""
        if isinstance(target, SimulatedNode):
            await target.kill()
            return
        self.trace.note(f"{target} is killed")
        self.network.end_process(target)
        await kill_all(self._loop, target)

    async def crash(self, broker: SimulatedNode, *, power: bool = False) -> None:
        """The process ends as by SIGKILL, or with `power` the whole machine."""
        await (broker.lose_power() if power else broker.kill())

    async def restart(self, broker: SimulatedNode) -> None:
        """Starts what has crashed; what runs is stopped in peace first."""
        await broker.stop()
        await broker.start()

    def partition(self, some: Hosts, others: Hosts | None = None, *, one_way: bool = False) -> None:
        """Nothing gets through between the two sides; without `others`, between some and all."""
        one_side = names_of(some)
        other_side = self._hosts() - one_side if others is None else names_of(others)
        self.trace.note(f"partition: {sorted(one_side)} from {sorted(other_side)}")
        self.network.partition(one_side, other_side, one_way=one_way)

    def slow_down(self, some: Hosts, others: Hosts, link: Link) -> None:
        for one in sorted(names_of(some)):
            for other in sorted(names_of(others)):
                self.trace.note(f"{one} and {other} have {link}")
                self.network.set_link(one, other, link)

    def heal(self) -> None:
        """The network is whole again; what was held up arrives with the next repetition."""
        self.trace.note("the network is whole")
        self.network.heal()

    @asynccontextmanager
    async def chaos(
        self, *kinds: Kind, brokers: Iterable[SimulatedNode] | None = None, every_seconds: float = 5
    ) -> AsyncIterator[Chaos]:
        """Accidents at seeded moments while the block lasts; after it, all is well again.

        Unless some are named, all may happen through which nothing is lost: no power cuts.
        """
        chaos = Chaos(
            self,
            self.chance_of(f"chaos {len(self.trace)}"),
            kinds=kinds or SURVIVABLE,
            nodes=list(self._nodes if brokers is None else brokers),
            every_seconds=every_seconds,
        )
        work = asyncio.get_running_loop().create_task(chaos.run())
        try:
            yield chaos
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            await chaos.make_good()

    def _hosts(self) -> set[str]:
        return {it.name for it in self._nodes} | {it.host for it in self.network.ends_at()}

    # --- what one may ask

    @property
    def now(self) -> datetime:
        return datetime.fromtimestamp(self.clock.now_ms() / 1000, tz=UTC)

    @property
    def seconds(self) -> float:
        """Of virtual time, since the beginning."""
        return self._loop.seconds

    def chance_of(self, whom: str) -> random.Random:
        """Draws of one's own: others may draw more or less without changing them."""
        return random.Random(f"{self.seed} {whom}")  # noqa: S311  # repeatable on purpose

    # --- its end

    async def _end(self) -> None:
        self.network.heal()
        for node in self._nodes:
            await node.kill()
        own = asyncio.current_task()
        while alive := [it for it in asyncio.all_tasks() if it is not own]:
            for task in alive:
                task.cancel()
            await asyncio.wait(alive, timeout=1)
        for end in self.network.ends_at():
            end.break_off()
        await self._loop.shutdown_asyncgens()

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            self._tell(error)
            raise

    def _tell(self, error: BaseException) -> None:
        repeat = how_to_repeat(self.seed)
        if repeat not in getattr(error, "__notes__", ()):
            error.add_note(f"the last of what happened:\n{self.trace.tail()}")
            error.add_note(repeat)


Hosts = SimulatedNode | str | list["SimulatedNode | str"]


def names_of(hosts: Hosts) -> set[str]:
    several = hosts if isinstance(hosts, list) else [hosts]
    return {it.name if isinstance(it, SimulatedNode) else it for it in several}
