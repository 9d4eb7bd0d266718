"""All listeners and connections of the broker: who may come in, who has to leave, how it ends."""

import asyncio
import logging
import socket
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any, Final

from pykbroker.apis.answers import Serve
from pykbroker.apis.peer import Peer
from pykbroker.transport.admission import Admission, Verdict
from pykbroker.transport.attention import Attention, Watch
from pykbroker.transport.connection import Connection, Surroundings
from pykbroker.transport.limits import ConnectionLimits
from pykbroker.transport.listener import Listener
from pykbroker.transport.operator_log import OperatorLog
from pykbroker.transport.unread_ends import UnreadEnds

logger = logging.getLogger(__name__)

LOOK_INTERVAL_S_MAX: Final = 10.0
LOOK_INTERVAL_S_MIN: Final = 0.05
LOOKS_PER_IDLE_TIME: Final = 4
"""How exactly the idle time is kept: a connection may live a quarter of it longer."""

ACCEPT_RETRY_S: Final = 1.0
"""How long accepting rests when the process has no file descriptor or memory for a newcomer."""

LAST_WAITS_S_MAX: Final = 1.0
"""How long a stop waits for cancelled handlers that do not end."""


class NetworkEdge:
    """The broker's doors. One per event loop."""

    def __init__(
        self,
        serve: Serve,
        limits: ConnectionLimits,
        now_ms: Callable[[], float] | None = None,
        attention: Attention | None = None,
        work_clock: Callable[[], float] = perf_counter,
    ) -> None:
        """Without a clock of its own it goes by that of the event loop, as its timers do.

        uvloop's does not move while the loop works: how long work takes is another clock's.

        Without attention it sleeps whenever nothing is to be done.
        """
        self._loop = loop = asyncio.get_running_loop()
        self._log = OperatorLog(logger)
        self._around = Surroundings(
            serve=serve,
            loop=self._loop,
            limits=limits,
            log=self._log,
            when_lost=self._lost,
            now_ms=now_ms or (lambda: loop.time() * 1000),
            unread_ends=UnreadEnds(loop),
            work_clock=work_clock,
            when_answered=None if attention is None else Watch(loop, attention).answered,
        )
        self._admission = Admission(limits)
        self._listeners: list[Listener] = []
        self._entering: set[asyncio.Task[Any]] = set()
        self._connection_id = 0
        self._is_stopping = False
        self._all_lost = asyncio.Event()
        self._retry: asyncio.TimerHandle | None = None
        self._next_look: asyncio.TimerHandle | None = None
        self._plan_look()

    def open(self, listener: Listener) -> None:
        """Accepts connections on a bound address; the edge closes it when it stops."""
        self._listeners.append(listener)
        listener.open(self.limits.accept_backlog_max, self._newcomer, self._exhausted)
        if self._admission.is_full:
            listener.pause()

    @property
    def limits(self) -> ConnectionLimits:
        return self._around.limits

    @limits.setter
    def limits(self, limits: ConnectionLimits) -> None:
        """Holds at once for what comes in and for what is there; nobody is thrown out for it."""
        self._around.limits = limits
        self._admission.limits = limits
        for connection in self._around.connections:
            connection.apply(limits)
        self._plan_look()
        self._open_or_shut()

    @property
    def connection_count(self) -> int:
        return self._admission.count

    async def stop(self, deadline_s: float) -> None:
        """Lets nobody in, serves nothing more, sends what is answered, closes by the deadline."""
        self._is_stopping = True
        if self._next_look is not None:
            self._next_look.cancel()
        if self._retry is not None:
            self._retry.cancel()
        self._around.unread_ends.stop()
        for listener in self._listeners:
            listener.close()
        await self._end_entering()
        for connection in list(self._around.connections):
            connection.close()
        if not await self._wait_for_all_lost(deadline_s):
            for connection in list(self._around.connections):
                connection.abort()
            await self._wait_for_all_lost(LAST_WAITS_S_MAX)
        await self._end_waits()

    def close_idle(self, now_ms: float) -> None:
        """Closes every connection on which nothing has moved for too long."""
        idle_ms_max = self.limits.idle_ms_max
        if idle_ms_max < 0:
            return
        for connection in list(self._around.connections):
            if connection.is_idle(now_ms, idle_ms_max):
                connection.abort()

    def look_for_unread_ends(self) -> None:
        """Ends connections whose peers have gone while nothing is read from them."""
        self._around.unread_ends.look()

    # Coming in

    def _newcomer(self, accepted: socket.socket, ip: str, port: int, listener: Listener) -> None:
        if self._admission.enter(ip) is Verdict.TURN_AWAY:
            accepted.close()
            allowed = self.limits.connections_from(ip)
            line = (
                f"turned away a connection from {ip} on listener {listener.name}: "
                f"{allowed} connections of one address are allowed"
            )
            self._log.peer_trouble(line, self._around.now_ms())
            return
        if self._admission.is_full:
            line = (
                f"{self.connection_count} connections are open, the most that max.connections and "
                "the open file limit (ulimit -n) allow; new connections wait until one closes"
            )
            self._log.peer_trouble(line, self._around.now_ms())
        self._open_or_shut()
        if self._next_look is None:
            self._plan_look()
        self._connection_id += 1
        peer = Peer(host=ip, port=port, listener=listener.name, connection_id=self._connection_id)
        connection = Connection(self._around, peer)
        entering = self._loop.create_task(
            self._loop.connect_accepted_socket(lambda: connection, accepted)
        )
        self._entering.add(entering)
        entering.add_done_callback(partial(self._entered, connection, accepted))

    def _entered(
        self, connection: Connection, accepted: socket.socket, entering: asyncio.Task[Any]
    ) -> None:
        self._entering.discard(entering)
        if not entering.cancelled() and entering.exception() is None:
            return
        # The loops differ in whether they still report the loss of a connection that came this far.
        accepted.close()
        connection.connection_lost(None)

    def _exhausted(self, error: OSError) -> None:
        line = (
            f"cannot accept connections for {ACCEPT_RETRY_S:g} s: {error.strerror}; "
            f"{self.connection_count} are open"
        )
        self._log.peer_trouble(line, self._around.now_ms())
        if self._retry is None or self._retry.when() <= self._loop.time():
            self._retry = self._loop.call_later(ACCEPT_RETRY_S, self._open_or_shut)

    def _lost(self, connection: Connection) -> None:
        self._admission.leave(connection.peer.host)
        if not self._admission.count:
            self._all_lost.set()
        self._open_or_shut()

    def _open_or_shut(self) -> None:
        if self._is_stopping:
            return
        for listener in self._listeners:
            if self._admission.is_full:
                listener.pause()
            else:
                listener.resume()

    # Looking after the idle

    def _plan_look(self) -> None:
        if self._next_look is not None:
            self._next_look.cancel()
            self._next_look = None
        if self._is_stopping or self.limits.idle_ms_max < 0 or not self._admission.count:
            return  # the next newcomer plans it
        wanted_s = self.limits.idle_ms_max / 1000 / LOOKS_PER_IDLE_TIME
        interval_s = min(max(wanted_s, LOOK_INTERVAL_S_MIN), LOOK_INTERVAL_S_MAX)
        self._next_look = self._loop.call_later(interval_s, self._look)

    def _look(self) -> None:
        self.close_idle(self._around.now_ms())
        self._plan_look()

    # Ending

    async def _end_entering(self) -> None:
        """Lets them in rather than cancel: it takes a turn of the loop, and they end like all."""
        if self._entering:
            await asyncio.wait(self._entering, timeout=LAST_WAITS_S_MAX)

    async def _wait_for_all_lost(self, timeout_s: float) -> bool:
        if not self._admission.count:
            return True
        self._all_lost.clear()
        try:
            async with asyncio.timeout(timeout_s):
                await self._all_lost.wait()
        except TimeoutError:
            return False
        return True

    async def _end_waits(self) -> None:
        waits = list(self._around.waits)
        if not waits:
            return
        _, stubborn = await asyncio.wait(waits, timeout=LAST_WAITS_S_MAX)
        if stubborn:
            logger.warning("%d requests did not end when they were cancelled", len(stubborn))
