"""An event loop with virtual time: if nothing is ready, time jumps to the next timer."""

from __future__ import annotations

import asyncio
import gc
import heapq
import itertools
import math
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pykbroker.testing.simulation.hosts import HERE, THIS_HOST

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Coroutine, Iterator
    from contextvars import Context

    from pykbroker.testing.simulation.network import Network

T = TypeVar("T")

DAY_SECONDS: Final = 24 * 3600

ITERATION_SECONDS: Final = 10e-6
"""Duration of an iteration of the loop, so that a busy loop sees time pass."""

WORK_SECONDS_MAX: Final = 0.003
"""Maximum duration of work in an executor."""

ITERATIONS_BETWEEN_COLLECTIONS: Final = 20_000
"""Garbage is collected at fixed iterations, because finalizers influence a run."""

BUSY_ITERATIONS_MAX: Final = 1_000_000
"""Ten virtual seconds in which a callback was always ready."""


class NothingWillHappen(RuntimeError):
    """Deadlock: all tasks wait, no timer is set and no data is in flight."""


class NeverRests(RuntimeError):
    """Busy loop: a callback was ready in every iteration for ten virtual seconds."""


class NeverEnds(RuntimeError):
    """The run exceeded its virtual days: it waits for an event that does not happen."""


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop without sockets, threads and signals. Connections use the simulated network."""

    def __init__(self, chance: random.Random, network: Network) -> None:
        super().__init__()
        self.seconds = 0.0
        self.seconds_max = math.inf
        """The virtual time at which the loop raises NeverEnds."""
        self._selector = _TimeJump(self)
        self._chance = chance
        self._network = network
        self._serials = itertools.count(1)
        self._paused: dict[str, list[asyncio.Handle]] = {}
        """Due callbacks of paused hosts."""

    # --- time

    def time(self) -> float:
        return self.seconds

    @contextmanager
    def ending_within(self, days: float) -> Iterator[None]:
        """Raises NeverEnds in the block after `days` virtual days."""
        self.seconds_max = self.seconds + days * DAY_SECONDS
        try:
            yield
        finally:
            self.seconds_max = math.inf

    def next_serial(self) -> int:
        return next(self._serials)

    # --- pauses

    def pause(self, host: str) -> None:
        """Runs no callback of a host until it resumes; time passes, as for a stopped process."""
        self._paused.setdefault(host, [])

    def resume(self, host: str) -> None:
        """Runs the callbacks that became due during the pause, in their order."""
        self._ready.extend(self._paused.pop(host, ()))  # type: ignore[attr-defined]  # of BaseEventLoop

    def is_paused(self, host: str) -> bool:
        return host in self._paused

    def defers(self, handle: asyncio.Handle, context: Context) -> bool:
        """Keeps a due callback for later if its host is paused."""
        waiting = self._paused.get(context.get(THIS_HOST, HERE))
        if waiting is None:
            return False
        waiting.append(handle)
        return True

    def _call_soon(
        self, callback: Callable[..., Any], args: Any, context: Context | None
    ) -> asyncio.Handle:
        handle = HostHandle(callback, args, self, context)
        self._ready.append(handle)  # type: ignore[attr-defined]  # of BaseEventLoop
        return handle

    def call_at(  # type: ignore[override]  # as above
        self,
        when: float,
        callback: Callable[..., Any],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        timer = HostTimerHandle(when, callback, args, self, context)
        heapq.heappush(self._scheduled, timer)  # type: ignore[attr-defined]  # of BaseEventLoop
        timer._scheduled = True  # type: ignore[attr-defined]  # noqa: SLF001  # as in BaseEventLoop
        return timer

    # --- futures and tasks with the same hash in every run

    def create_future(self) -> asyncio.Future[Any]:
        return NumberedFuture(self)

    def create_task(self, coro: Any, **given: Any) -> asyncio.Task[Any]:
        name = given.pop("name", None)
        task = NumberedTask(coro, self, **given)
        if name is not None:
            task.set_name(name)
        return task

    def tasks_at(self, host: str) -> list[NumberedTask]:
        """The tasks of a host in the order in which they were started."""
        found = [it for it in asyncio.all_tasks(self) if isinstance(it, NumberedTask)]
        return sorted((it for it in found if it.host == host), key=lambda it: it.serial)

    # --- threads

    def run_in_executor(  # type: ignore[override]  # asyncio has many signatures for each
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Runs the function on the loop after a random delay."""
        del executor
        done: asyncio.Future[T] = self.create_future()
        delay = self._chance.uniform(0, WORK_SECONDS_MAX)
        self.call_later(delay, _work, done, func, args)
        return done

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Does nothing: there is no executor."""

    # --- connections

    async def create_connection(  # type: ignore[override]  # as above
        self, protocol_factory: Any, host: Any, port: Any, **how: Any
    ) -> Any:
        _refuse_tls(how)
        return await self._network.connect(protocol_factory, host, port)

    async def create_server(  # type: ignore[override]  # as above
        self, protocol_factory: Any, host: Any, port: Any, **how: Any
    ) -> Any:
        _refuse_tls(how)
        return self._network.serve(protocol_factory, host, port)

    async def connect_accepted_socket(self, protocol_factory: Any, sock: Any, **how: Any) -> Any:
        _refuse_tls(how)
        return sock, sock.begin(protocol_factory())

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> Any:
        return self._network.resolve(host, port)

    # --- hooks of asyncio's base loop

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Ignores errors after the simulation has ended."""
        if not self.is_closed():
            super().call_exception_handler(context)

    def _process_events(self, events: list[Any]) -> None:
        """Does nothing: there are no I/O events."""

    def _write_to_self(self) -> None:
        """Does nothing: the loop never blocks in a selector."""


class HostHandle(asyncio.Handle):
    """A callback that does not run while its host is paused."""

    __slots__ = ()

    _context: Context
    _loop: VirtualLoop

    def _run(self) -> None:
        if not (self._loop._paused and self._loop.defers(self, self._context)):  # noqa: SLF001  # of this module
            super()._run()


class HostTimerHandle(asyncio.TimerHandle):
    """A timer that does not fire while its host is paused."""

    __slots__ = ()

    _context: Context
    _loop: VirtualLoop

    def _run(self) -> None:
        if not (self._loop._paused and self._loop.defers(self, self._context)):  # noqa: SLF001  # of this module
            super()._run()


class NumberedFuture(asyncio.Future[Any]):
    """Hashes by number instead of address, so that sets have the same order in every run."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.serial = loop.next_serial()
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self.serial


class NumberedTask(asyncio.Task[Any]):
    def __init__(self, coro: Coroutine[Any, Any, Any], loop: VirtualLoop, **given: Any) -> None:
        self.serial = loop.next_serial()
        context = given.get("context")
        self.host = THIS_HOST.get() if context is None else context.get(THIS_HOST, HERE)
        super().__init__(coro, loop=loop, name=f"task {self.serial}", **given)

    def __hash__(self) -> int:
        return self.serial


class _TimeJump:
    """Replaces the selector: instead of waiting for I/O, advances the virtual time."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._iterations = self._busy_iterations = 0

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise NothingWillHappen(NothingWillHappen.__doc__)
        self._loop.seconds += max(timeout, 0.0) + ITERATION_SECONDS
        self._iterations += 1
        self._busy_iterations = 0 if timeout > 0 else self._busy_iterations + 1
        if self._busy_iterations > BUSY_ITERATIONS_MAX:
            raise NeverRests(NeverRests.__doc__)
        if self._loop.seconds > self._loop.seconds_max:
            raise NeverEnds(NeverEnds.__doc__)
        if self._iterations % ITERATIONS_BETWEEN_COLLECTIONS == 0:
            gc.collect()
        return []

    def close(self) -> None: ...


def _work(done: asyncio.Future[T], func: Callable[..., T], args: tuple[Any, ...]) -> None:
    if done.cancelled():
        return
    try:
        result = func(*args)
    except Exception as error:  # noqa: BLE001  # raised at the await
        done.set_exception(error)
    else:
        done.set_result(result)


def _refuse_tls(how: dict[str, Any]) -> None:
    if how.get("ssl"):
        raise NotImplementedError("TLS is not supported in a simulation")
    if how.get("sock"):
        raise NotImplementedError("real sockets are not supported in a simulation")
