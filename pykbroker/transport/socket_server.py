"""All listeners and connections of a broker: accepting, quotas, idle connections, shutdown."""

import asyncio
import logging
import socket
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any, Final

from pykbroker.apis.answers import Serve
from pykbroker.apis.peer import Peer
from pykbroker.transport.busy_polling import BusyPolling, LoopPoller
from pykbroker.transport.connection import Connection, ServerContext
from pykbroker.transport.connection_quotas import ConnectionQuotas, Verdict
from pykbroker.transport.limits import ConnectionLimits
from pykbroker.transport.listener import Listener
from pykbroker.transport.paused_peers import PausedPeers
from pykbroker.transport.peer_log import PeerLog

logger = logging.getLogger(__name__)

IDLE_CHECK_SECONDS_MAX: Final = 10.0
IDLE_CHECK_SECONDS_MIN: Final = 0.05
CHECKS_PER_IDLE_TIME: Final = 4
"""A connection is closed at most a quarter of the idle time too late."""

ACCEPT_RETRY_SECONDS: Final = 1.0
"""Pause of accepting when the process has no file descriptor or memory for a connection."""

CANCELLATION_SECONDS_MAX: Final = 1.0
"""Time that a stop waits for cancelled requests to end."""


class SocketServer:
    """Accepts connections of all listeners. One per event loop."""

    def __init__(
        self,
        serve: Serve,
        limits: ConnectionLimits,
        now_ms: Callable[[], float] | None = None,
        busy_polling: BusyPolling | None = None,
        work_clock: Callable[[], float] = perf_counter,
    ) -> None:
        """`now_ms` defaults to the clock of the event loop, which its timers use.

        `work_clock` measures how long work takes: the clock of uvloop stands still during work.
        Without `busy_polling` the event loop blocks whenever it has no work.
        """
        self._loop = loop = asyncio.get_running_loop()
        now_ms = now_ms or (lambda: loop.time() * 1000)
        self._log = PeerLog(logger)
        poller = None if busy_polling is None else LoopPoller(loop, busy_polling)
        self._context = ServerContext(
            serve=serve,
            loop=self._loop,
            limits=limits,
            log=self._log,
            on_lost=self._lost,
            now_ms=now_ms,
            paused_peers=PausedPeers(loop),
            work_clock=work_clock,
            on_responded=None if poller is None else poller.responded,
        )
        self._quotas = ConnectionQuotas(limits)
        self._listeners: list[Listener] = []
        self._connecting: set[asyncio.Task[Any]] = set()
        self._connection_id = 0
        self._is_stopping = False
        self._all_closed = asyncio.Event()
        self._retry: asyncio.TimerHandle | None = None
        self._next_idle_check: asyncio.TimerHandle | None = None
        self._schedule_idle_check()

    def open(self, listener: Listener) -> None:
        """Accepts connections of a bound listener, which `stop` closes."""
        self._listeners.append(listener)
        listener.open(self.limits.accept_backlog_max, self._accepted, self._exhausted)
        if self._quotas.is_full:
            listener.pause()

    @property
    def limits(self) -> ConnectionLimits:
        return self._context.limits

    @limits.setter
    def limits(self, limits: ConnectionLimits) -> None:
        """Applies to new and open connections; open ones above a lower limit are not closed."""
        self._context.limits = limits
        self._quotas.limits = limits
        for connection in self._context.connections:
            connection.apply(limits)
        self._schedule_idle_check()
        self._resume_or_pause()

    @property
    def connection_count(self) -> int:
        return self._quotas.count

    async def stop(self, timeout_seconds: float) -> None:
        """Stops accepting and serving, sends released responses, closes within the timeout."""
        self._is_stopping = True
        if self._next_idle_check is not None:
            self._next_idle_check.cancel()
        if self._retry is not None:
            self._retry.cancel()
        self._context.paused_peers.stop()
        for listener in self._listeners:
            listener.close()
        await self._end_connecting()
        for connection in list(self._context.connections):
            connection.close()
        if not await self._wait_until_closed(timeout_seconds):
            for connection in list(self._context.connections):
                connection.abort()
            await self._wait_until_closed(CANCELLATION_SECONDS_MAX)
        await self._end_waits()

    def close_idle(self, now_ms: float) -> None:
        """Closes connections without traffic for `connections.max.idle.ms`."""
        idle_ms_max = self.limits.idle_ms_max
        if idle_ms_max < 0:
            return
        for connection in list(self._context.connections):
            if connection.is_idle(now_ms, idle_ms_max):
                connection.abort()

    def poll_paused_peers(self) -> None:
        """Closes connections whose peers have disconnected while reading was paused."""
        self._context.paused_peers.poll()

    # Accepting

    def _accepted(self, accepted: socket.socket, ip: str, port: int, listener: Listener) -> None:
        if self._quotas.admit(ip) is Verdict.REJECT:
            accepted.close()
            allowed = self.limits.connections_from(ip)
            self._log.warning(
                "%s on listener %s: connection rejected "
                "(max.connections.per.ip of this address is %d)",
                ip,
                listener.name,
                allowed,
            )
            return
        if self._quotas.is_full:
            self._log.warning(
                "listeners: %d connections are open, the maximum that max.connections and the open "
                "file limit (ulimit -n) allow; new connections wait until one closes",
                self.connection_count,
            )
        self._resume_or_pause()
        if self._next_idle_check is None:
            self._schedule_idle_check()
        self._connection_id += 1
        peer = Peer(host=ip, port=port, listener=listener.name, connection_id=self._connection_id)
        connection = Connection(self._context, peer)
        connecting = self._loop.create_task(
            self._loop.connect_accepted_socket(lambda: connection, accepted)
        )
        self._connecting.add(connecting)
        connecting.add_done_callback(partial(self._connected, connection, accepted))

    def _connected(
        self, connection: Connection, accepted: socket.socket, connecting: asyncio.Task[Any]
    ) -> None:
        self._connecting.discard(connecting)
        if not connecting.cancelled() and connecting.exception() is None:
            return
        # Event loops differ in whether they call connection_lost at this stage.
        accepted.close()
        connection.connection_lost(None)

    def _exhausted(self, error: OSError) -> None:
        self._log.warning(
            "listeners: connections cannot be accepted (%s); %d are open; retrying every %g s",
            error.strerror,
            self.connection_count,
            ACCEPT_RETRY_SECONDS,
        )
        if self._retry is None or self._retry.when() <= self._loop.time():
            self._retry = self._loop.call_later(ACCEPT_RETRY_SECONDS, self._resume_or_pause)

    def _lost(self, connection: Connection) -> None:
        self._quotas.release(connection.peer.host)
        if not self._quotas.count:
            self._all_closed.set()
        self._resume_or_pause()

    def _resume_or_pause(self) -> None:
        if self._is_stopping:
            return
        for listener in self._listeners:
            if self._quotas.is_full:
                listener.pause()
            else:
                listener.resume()

    # Idle connections

    def _schedule_idle_check(self) -> None:
        if self._next_idle_check is not None:
            self._next_idle_check.cancel()
            self._next_idle_check = None
        if self._is_stopping or self.limits.idle_ms_max < 0 or not self._quotas.count:
            return  # the next accepted connection schedules it
        interval_seconds = self.limits.idle_ms_max / 1000 / CHECKS_PER_IDLE_TIME
        interval_seconds = min(
            max(interval_seconds, IDLE_CHECK_SECONDS_MIN), IDLE_CHECK_SECONDS_MAX
        )
        self._next_idle_check = self._loop.call_later(interval_seconds, self._check_idle)

    def _check_idle(self) -> None:
        self.close_idle(self._context.now_ms())
        self._schedule_idle_check()

    # Shutdown

    async def _end_connecting(self) -> None:
        """Waits for connections that are being set up; `stop` closes them afterwards."""
        if self._connecting:
            await asyncio.wait(self._connecting, timeout=CANCELLATION_SECONDS_MAX)

    async def _wait_until_closed(self, timeout_seconds: float) -> bool:
        if not self._quotas.count:
            return True
        self._all_closed.clear()
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._all_closed.wait()
        except TimeoutError:
            return False
        return True

    async def _end_waits(self) -> None:
        waits = list(self._context.waits)
        if not waits:
            return
        _, running = await asyncio.wait(waits, timeout=CANCELLATION_SECONDS_MAX)
        if running:
            text = "shutdown: requests still running %g s after cancellation: %d"
            logger.warning(text, CANCELLATION_SECONDS_MAX, len(running))
