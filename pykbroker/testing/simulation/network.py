"""The simulated network: hosts, links, partitions and machines that are down."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from typing import TYPE_CHECKING, Any, Final

from pykbroker.testing.simulation.connection import pair
from pykbroker.testing.simulation.hosts import THIS_HOST
from pykbroker.testing.simulation.link import Link
from pykbroker.testing.simulation.virtual_listeners import ListeningPort, VirtualServer

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from pykbroker.testing.simulation.connection import Endpoint
    from pykbroker.testing.simulation.trace import Trace

OWN_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0", "::", ""})  # noqa: S104  # recognised, not bound
FIRST_FREE_PORT: Final = 32_768
CONNECT_SECONDS_MAX: Final = 127.0
"""Six SYN retransmissions, as in Linux."""
RETRANSMISSION_SECONDS_MAX: Final = 2.0
"""Maximum delay after a partition until delayed data is retransmitted."""


class Network:
    """Connections between hosts. Every name is a host."""

    def __init__(self, chance: random.Random, trace: Trace) -> None:
        self.chance = chance
        self.trace = trace
        self.everywhere = Link()
        self.delivers_after_close = True
        """If True, data in flight arrives after its sender has closed the connection.

        TCP does this, even minutes later. Such data can be a request that its client has given up
        and repeated on another connection.
        """
        self.moved: Callable[[], None] = _nothing
        """Called when data arrives at a host."""
        self._links: dict[tuple[str, str], Link] = {}
        self._cut: set[tuple[str, str]] = set()
        self._down: set[str] = set()
        self._paused: set[str] = set()
        self._ports: dict[tuple[str, int], ListeningPort] = {}
        self._held: dict[int, tuple[str, str, Callable[[], None]]] = {}
        self._ends: dict[Endpoint, None] = {}
        self._next_number = 0
        self._next_port = FIRST_FREE_PORT

    # --- for tests

    def set_link(self, one: str, other: str, link: Link) -> None:
        self._links[one, other] = self._links[other, one] = link

    def partition(self, some: set[str], others: set[str], *, one_way: bool = False) -> None:
        """Drops data from some hosts to others, and back unless `one_way`. Keeps connections."""
        for one in some:
            self._cut |= {(one, other) for other in others}
            if not one_way:
                self._cut |= {(other, one) for other in others}

    def heal(self) -> None:
        """Removes all partitions and custom links."""
        self._cut.clear()
        self._links.clear()
        self._resume_held()

    def take_down(self, host: str) -> None:
        """Turns a machine off: its connections vanish without a reset to their peers."""
        self._down.add(host)
        for end in self.ends_at(host):
            end.vanish()

    def bring_up(self, host: str) -> None:
        self._down.discard(host)
        self._resume_held()

    def pause(self, host: str) -> None:
        """Keeps arriving data in the socket buffers of a host, whose programs do not run."""
        self._paused.add(host)

    def resume(self, host: str) -> None:
        self._paused.discard(host)
        for end in self.ends_at(host):
            end.other.outgoing.deliver_due()

    def is_paused(self, host: str) -> bool:
        return host in self._paused

    def end_process(self, host: str) -> None:
        """Ends the programs of a host: the operating system resets connections and closes ports."""
        for end in self.ends_at(host):
            end.leave_behind()
        for address in [it for it in self._ports if it[0] == host]:
            del self._ports[address]

    def reset(self, end: Endpoint) -> None:
        """Resets both endpoints of a connection, like a middlebox."""
        end.break_off()
        end.other.break_off()

    def ends_at(self, host: str | None = None) -> list[Endpoint]:
        return [it for it in self._ends if host in (None, it.host)]

    # --- for connections

    def number(self) -> int:
        self._next_number += 1
        return self._next_number

    def link(self, source: str, target: str) -> Link:
        return self._links.get((source, target), self.everywhere)

    def passes(self, source: str, target: str) -> bool:
        return (
            (source, target) not in self._cut
            and source not in self._down
            and target not in self._down
        )

    def call_when_reachable(self, source: str, target: str, callback: Callable[[], None]) -> int:
        """Returns a number for `cancel_call`."""
        number = self.number()
        self._held[number] = source, target, callback
        return number

    def cancel_call(self, number: int) -> None:
        self._held.pop(number, None)

    def add_endpoint(self, end: Endpoint) -> None:
        self._ends[end] = None

    def remove_endpoint(self, end: Endpoint) -> None:
        self._ends.pop(end, None)

    def _resume_held(self) -> None:
        loop = asyncio.get_running_loop()
        for number, (source, target, callback) in list(self._held.items()):
            if self.passes(source, target):
                del self._held[number]
                loop.call_later(self.chance.uniform(0, RETRANSMISSION_SECONDS_MAX), callback)

    # --- connecting

    def resolve(self, host: Any, port: Any) -> list[Any]:
        address = (self._host(host), int(port or 0))
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", address)]

    def _host(self, name: Any) -> str:
        text = name.decode() if isinstance(name, bytes) else str(name or "")
        return THIS_HOST.get() if text in OWN_NAMES else text

    async def connect(self, protocol_factory: Any, host: Any, port: Any) -> tuple[Endpoint, Any]:
        here, there = THIS_HOST.get(), self._host(host)
        await self._reach(here, there)
        listening = self._ports.get((there, int(port)))
        if listening is None:
            await self._reach(there, here)
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"{there}:{port} refuses connections")
        own, other = pair(self, (here, self.free_port()), (there, int(port)))
        listening.connect(other)
        await self._reach(there, here)
        return own, own.begin(protocol_factory())

    async def _reach(self, source: str, target: str) -> None:
        """Waits for one packet to reach the target, with retransmissions."""
        link = self.link(source, target)
        await asyncio.sleep(link.latency_seconds + self.chance.uniform(0, link.jitter_seconds))
        while not self.passes(source, target):
            through = asyncio.get_running_loop().create_future()
            number = self.call_when_reachable(source, target, lambda it=through: _complete(it))  # type: ignore[misc]  # bound at once
            try:
                async with asyncio.timeout(CONNECT_SECONDS_MAX):
                    await through
            except TimeoutError:
                raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)) from None
            finally:
                self.cancel_call(number)

    # --- listening

    def serve(self, protocol_factory: Any, host: Any, port: Any) -> VirtualServer:
        """The server of `loop.create_server`."""
        server = VirtualServer(asyncio.get_running_loop(), protocol_factory)
        listening = self.listen(host, port, server.accept)
        server.on_close(lambda: self.close_port(listening))
        return server

    def listen(self, host: Any, port: Any, accept: Callable[[Endpoint], None]) -> ListeningPort:
        address = self._host(host), int(port or self.free_port())
        if address in self._ports:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        listening = self._ports[address] = ListeningPort(address, accept)
        return listening

    def close_port(self, listening: ListeningPort) -> None:
        if self._ports.get(listening.address) is listening:
            del self._ports[listening.address]
            listening.close()

    def free_port(self) -> int:
        self._next_port += 1
        return self._next_port


def _complete(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)


def _nothing() -> None:
    """The default of `Network.moved`."""
