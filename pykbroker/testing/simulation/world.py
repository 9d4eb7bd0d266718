"""`Simulation`: brokers, clients and failures in one event loop, determined by a seed."""

from __future__ import annotations

import asyncio
import random
from contextlib import ExitStack, asynccontextmanager, contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self, TypeVar

from pykbroker.testing.broker_options import parse_topics
from pykbroker.testing.simulation.aiokafka_patches import patched_aiokafka
from pykbroker.testing.simulation.chaos import SURVIVABLE, Admission, Chaos, Kind
from pykbroker.testing.simulation.clock import SeededRandomness, VirtualClock
from pykbroker.testing.simulation.controllers import SimulatedControllers
from pykbroker.testing.simulation.disk import CrashingDisk
from pykbroker.testing.simulation.host_processes import kill_all, start_on
from pykbroker.testing.simulation.hosts import THIS_HOST
from pykbroker.testing.simulation.network import Network
from pykbroker.testing.simulation.node import SimulatedNode
from pykbroker.testing.simulation.patched_runtime import patched_runtime
from pykbroker.testing.simulation.seeds import how_to_repeat, new_seed
from pykbroker.testing.simulation.simulated_environment import simulated_environment
from pykbroker.testing.simulation.trace import Trace
from pykbroker.testing.simulation.virtual_loop import NeverEnds, VirtualLoop
from pykbroker.testing.temporary_directory import make_directory, remove_directory

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
    from types import TracebackType

    from pykbroker.apis import Api
    from pykbroker.testing.broker_options import Config, Scalar, Topics
    from pykbroker.testing.simulation.link import Link
    from pykbroker_protocol.message import Message

T = TypeVar("T")

DAYS_MAX = 31.0
"""Default limit of a run in virtual days."""


class Simulation:
    """Runs real brokers and asyncio clients with virtual time, and a network and disks that fail.

    The same seed gives the same run. The default is the environment variable SIMULATION_SEED, or a
    random seed. An exception that leaves the simulation has a note with the seed.
    """

    def __init__(self, seed: int | None = None) -> None:
        self.seed = new_seed() if seed is None else seed
        self._exit_stack = ExitStack()
        self._nodes: list[SimulatedNode] = []
        self._failures: list[AssertionError] = []

    def __enter__(self) -> Self:
        self.directory = make_directory()
        self._exit_stack.callback(remove_directory, self.directory)
        self.trace = Trace(lambda: self._loop.seconds)
        """The events of the run."""
        self.controllers: SimulatedControllers | None = None
        self.network = Network(self.chance_of("network"), self.trace)
        self._loop = VirtualLoop(self.chance_of("threads"), self.network)
        self.clock = VirtualClock(self._loop)
        self.answer_observers: list[Callable[[str, Api, Message], None]] = []
        """Called with the host, API and response of each request that a broker answers."""
        self._clocks = [self.clock]
        self.network.moved = self._something_arrived
        self._exit_stack.enter_context(patched_runtime(self._loop, self.chance_of("programs")))
        self._exit_stack.enter_context(patched_aiokafka())
        self._exit_stack.callback(self._loop.close)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            with self._notes_on_errors():
                self._loop.run_until_complete(self._end())
        finally:
            self._exit_stack.close()
        if error is not None:
            self._add_notes(error)

    def run(self, story: Coroutine[Any, Any, T], *, days_max: float = DAYS_MAX) -> T:
        """Runs a coroutine until it ends. Tasks that it started continue in the next run.

        Re-raises an AssertionError of a program that was started on a host. Raises NeverEnds after
        `days_max` virtual days.
        """
        with self._notes_on_errors(), self._loop.ending_within(days_max):
            try:
                ended = self._loop.run_until_complete(story)
            except NeverEnds as error:
                error.add_note(f"limit: {days_max:g} virtual days, set by run(…, days_max=…)")
                self._raise_failures()  # a failed program can be the cause of the wait
                raise
            self._raise_failures()
            return ended

    def _raise_failures(self) -> None:
        for failure in self._failures:
            raise failure

    # --- brokers and programs

    def broker(
        self, topics: Topics = (), config: Config | None = None, *, name: str | None = None
    ) -> SimulatedNode:
        """Starts a broker outside of a run. Inside a run, use `await add_broker(…)`."""
        return self.run(self.add_broker(topics, config, name=name))

    async def add_broker(
        self, topics: Topics = (), config: Config | None = None, *, name: str | None = None
    ) -> SimulatedNode:
        name = name or f"kafka-{len(self._nodes) + 1}"
        return await self._add_node(name, topics, config or {}, self.clock)

    async def _add_node(
        self, name: str, topics: Topics, config: Config, clock: VirtualClock
    ) -> SimulatedNode:
        directory = self.directory / name
        directory.mkdir()
        disk = CrashingDisk(directory, self.chance_of(f"disk {name}"), clock.now_ms)
        environment = simulated_environment(
            clock=clock,
            randomness=SeededRandomness(self.chance_of(f"broker {name}")),
            network=self.network,
            disk=disk,
            trace=self.trace,
            on_answer=lambda api, answer: self._note_answer(name, api, answer),
        )
        node = SimulatedNode(
            name,
            self._loop,
            environment,
            network=self.network,
            disk=disk,
            trace=self.trace,
            topics=parse_topics(topics),
            config=config,
        )
        self._nodes.append(node)
        await node.start()
        return node

    async def add_controllers(self, count: int = 1, **options: Any) -> SimulatedControllers:
        """Starts the controllers of a cluster; options are those of ControllerModel."""
        self.controllers = await SimulatedControllers.start(
            self._loop,
            count=count,
            clock=self.clock,
            randomness=SeededRandomness(self.chance_of("controllers")),
            trace=self.trace,
            **options,
        )
        self._exit_stack.callback(self.controllers.model.close)
        return self.controllers

    async def add_member(
        self,
        node_id: int,
        config: Config | None = None,
        *,
        clock_offset_ms: int = 0,
        clock_rate: float = 1.0,
    ) -> SimulatedNode:
        """Starts a broker of the cluster, on a host with a clock of its own.

        `clock_rate` above 1 is a clock that is too fast.
        """
        assert self.controllers is not None, "add_controllers() comes first"
        clock = VirtualClock(self._loop, offset_ms=clock_offset_ms, rate=clock_rate)
        self._clocks.append(clock)
        member: dict[str, Scalar] = {
            "process.roles": "broker",
            "node.id": node_id,
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": self.controllers.bootstrap,
        }
        name = f"kafka-{node_id}"
        return await self._add_node(name, (), {**member, **(config or {})}, clock)

    def _note_answer(self, host: str, api: Api, answer: Message) -> None:
        for observer in self.answer_observers:
            observer(host, api, answer)

    def start(self, host: str, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Starts a program on a host, which can be partitioned and killed."""
        program = start_on(self._loop, host, work)
        program.add_done_callback(self._collect_failure)
        return program

    def _collect_failure(self, ended: asyncio.Task[Any]) -> None:
        failure = None if ended.cancelled() else ended.exception()
        if isinstance(failure, AssertionError):
            self._failures.append(failure)

    @contextmanager
    def on(self, host: str) -> Iterator[None]:
        """Starts the tasks of the block on that host."""
        token = THIS_HOST.set(host)
        try:
            yield
        finally:
            THIS_HOST.reset(token)

    # --- failures

    async def kill(self, target: SimulatedNode | str) -> None:
        """Ends a broker, or all programs of a host, as by SIGKILL."""
        self.resume(target)
        if isinstance(target, SimulatedNode):
            await target.kill()
            return
        self.trace.note(f"{target} is killed")
        self.network.end_process(target)
        await kill_all(self._loop, target)

    async def crash(self, broker: SimulatedNode, *, power: bool = False) -> None:
        """Ends the process as by SIGKILL, or with `power` turns the machine off."""
        self.resume(broker)
        await (broker.lose_power() if power else broker.kill())

    async def restart(self, broker: SimulatedNode) -> None:
        """Starts a broker. Stops it cleanly first if it is running."""
        await broker.stop()
        await broker.start()

    def pause(self, target: SimulatedNode | str) -> None:
        """Stops all programs of a host, as SIGSTOP does; connections stay open."""
        (host,) = names_of(target)
        self.trace.note(f"{host} is paused")
        self.network.pause(host)
        self._loop.pause(host)

    def resume(self, target: SimulatedNode | str) -> None:
        (host,) = names_of(target)
        if self._loop.is_paused(host):
            self.trace.note(f"{host} continues")
            self._loop.resume(host)
            self.network.resume(host)

    def partition(self, some: Hosts, others: Hosts | None = None, *, one_way: bool = False) -> None:
        """Drops data between the two sides; without `others`, between some and all other hosts."""
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
        """Removes partitions and slow links. Delayed data arrives with its next retransmission."""
        self.trace.note("network healed")
        self.network.heal()

    @asynccontextmanager
    async def chaos(
        self,
        *kinds: Kind,
        brokers: Iterable[SimulatedNode] | None = None,
        every_seconds: float = 5,
        admission: Admission | None = None,
    ) -> AsyncIterator[Chaos]:
        """Injects random failures during the block, then repairs network, disks and brokers.

        The default kinds are SURVIVABLE: all except power losses. `admission` refuses some.
        """
        chaos = Chaos(
            self,
            self.chance_of(f"chaos {len(self.trace)}"),
            kinds=kinds or SURVIVABLE,
            nodes=list(self._nodes if brokers is None else brokers),
            every_seconds=every_seconds,
            admission=admission,
        )
        work = asyncio.get_running_loop().create_task(chaos.run())
        try:
            yield chaos
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            await chaos.repair()

    def _something_arrived(self) -> None:
        for clock in self._clocks:
            clock.something_arrived()

    def _hosts(self) -> set[str]:
        return {it.name for it in self._nodes} | {it.host for it in self.network.ends_at()}

    # --- time and randomness

    @property
    def now(self) -> datetime:
        return datetime.fromtimestamp(self.clock.now_ms() / 1000, tz=UTC)

    @property
    def seconds(self) -> float:
        """Virtual time since the start."""
        return self._loop.seconds

    def chance_of(self, name: str) -> random.Random:
        """Returns an independent random generator for this seed and name."""
        return random.Random(f"{self.seed} {name}")  # noqa: S311  # repeatable on purpose

    # --- ending

    async def _end(self) -> None:
        self.network.heal()
        for node in self._nodes:
            self.resume(node)
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
    def _notes_on_errors(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            self._add_notes(error)
            raise

    def _add_notes(self, error: BaseException) -> None:
        repeat = how_to_repeat(self.seed)
        if repeat not in getattr(error, "__notes__", ()):
            error.add_note(f"latest events:\n{self.trace.tail()}")
            error.add_note(repeat)


Hosts = SimulatedNode | str | list["SimulatedNode | str"]


def names_of(hosts: Hosts) -> set[str]:
    several = hosts if isinstance(hosts, list) else [hosts]
    return {it.name if isinstance(it, SimulatedNode) else it for it in several}
