"""Hosts, and what lies between them: links with a delay, partitions, machines that are down."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from typing import TYPE_CHECKING, Any, Final

from pykbroker.testing.simulation.connection import pair
from pykbroker.testing.simulation.hosts import THIS_HOST
from pykbroker.testing.simulation.link import Link
from pykbroker.testing.simulation.virtual_listeners import Door, VirtualServer

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from pykbroker.testing.simulation.connection import End
    from pykbroker.testing.simulation.trace import Trace

OWN_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0", "::", ""})  # noqa: S104  # recognised, not bound
FIRST_FREE_PORT: Final = 32_768
CONNECT_SECONDS_MAX: Final = 127.0
"""Six repeated SYNs, as Linux has it."""
REPEAT_SECONDS_MAX: Final = 2.0
"""After a partition, what was held up comes with the next repetition."""


class Network:
    """Connections among hosts, which are names; every name is a host."""

    def __init__(self, chance: random.Random, trace: Trace) -> None:
        self.chance = chance
        self.trace = trace
        self.everywhere = Link()
        self.delivers_after_close = True
        """Whether what is under way arrives though its writer has closed the connection since.

        TCP does so, be it minutes later; what then comes may be a request that its client has
        given up and sent again.
        """
        self.moved: Callable[[], None] = _nothing
        """Called whenever bytes arrive somewhere."""
        self._links: dict[tuple[str, str], Link] = {}
        self._cut: set[tuple[str, str]] = set()
        self._down: set[str] = set()
        self._doors: dict[tuple[str, int], Door] = {}
        self._held: dict[int, tuple[str, str, Callable[[], None]]] = {}
        self._ends: dict[End, None] = {}
        self._next_number = 0
        self._next_port = FIRST_FREE_PORT

    # --- what a test does to it

    def set_link(self, one: str, other: str, link: Link) -> None:
        self._links[one, other] = self._links[other, one] = link

    def partition(self, some: set[str], others: set[str], *, one_way: bool = False) -> None:
        """Nothing gets from some to the others, nor back unless it is `one_way`; nobody is told."""
        for one in some:
            self._cut |= {(one, other) for other in others}
            if not one_way:
                self._cut |= {(other, one) for other in others}

    def heal(self) -> None:
        """All partitions end, and all links are as they were at first."""
        self._cut.clear()
        self._links.clear()
        self._let_go()

    def take_down(self, host: str) -> None:
        """The machine is off: it forgets its connections, and nobody is told."""
        self._down.add(host)
        for end in self.ends_at(host):
            end.vanish()

    def bring_up(self, host: str) -> None:
        self._down.discard(host)
        self._let_go()

    def end_process(self, host: str) -> None:
        """All that ran on a host is gone; its system closes the connections and the ports."""
        for end in self.ends_at(host):
            end.leave_behind()
        for place in [it for it in self._doors if it[0] == host]:
            del self._doors[place]

    def reset(self, end: End) -> None:
        """Some box between the two says that there is no such connection."""
        end.break_off()
        end.other.break_off()

    def ends_at(self, host: str | None = None) -> list[End]:
        return [it for it in self._ends if host in (None, it.host)]

    # --- what connections ask of it

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

    def when_it_passes(self, source: str, target: str, callback: Callable[[], None]) -> int:
        """A number by which the wait can be given up."""
        number = self.number()
        self._held[number] = source, target, callback
        return number

    def forget(self, number: int) -> None:
        self._held.pop(number, None)

    def known(self, end: End) -> None:
        self._ends[end] = None

    def gone(self, end: End) -> None:
        self._ends.pop(end, None)

    def _let_go(self) -> None:
        loop = asyncio.get_running_loop()
        for number, (source, target, callback) in list(self._held.items()):
            if self.passes(source, target):
                del self._held[number]
                loop.call_later(self.chance.uniform(0, REPEAT_SECONDS_MAX), callback)

    # --- connecting

    def resolve(self, host: Any, port: Any) -> list[Any]:
        address = (self._host(host), int(port or 0))
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", address)]

    def _host(self, name: Any) -> str:
        text = name.decode() if isinstance(name, bytes) else str(name or "")
        return THIS_HOST.get() if text in OWN_NAMES else text

    async def connect(self, protocol_factory: Any, host: Any, port: Any) -> tuple[End, Any]:
        here, there = THIS_HOST.get(), self._host(host)
        await self._reach(here, there)
        door = self._doors.get((there, int(port)))
        if door is None:
            await self._reach(there, here)
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"{there}:{port} refuses connections")
        own, other = pair(self, (here, self.free_port()), (there, int(port)))
        door.knock(other)
        await self._reach(there, here)
        return own, own.begin(protocol_factory())

    async def _reach(self, source: str, target: str) -> None:
        """One packet's way, sent again and again while it does not get through."""
        link = self.link(source, target)
        await asyncio.sleep(link.latency_seconds + self.chance.uniform(0, link.jitter_seconds))
        while not self.passes(source, target):
            through = asyncio.get_running_loop().create_future()
            number = self.when_it_passes(source, target, lambda it=through: _wake(it))  # type: ignore[misc]  # bound at once
            try:
                async with asyncio.timeout(CONNECT_SECONDS_MAX):
                    await through
            except TimeoutError:
                raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)) from None
            finally:
                self.forget(number)

    # --- being connected to

    def serve(self, protocol_factory: Any, host: Any, port: Any) -> VirtualServer:
        """What `asyncio.start_server` gives."""
        server = VirtualServer(asyncio.get_running_loop(), protocol_factory)
        door = self.open_door(host, port, server.accept)
        server.on_close(lambda: self.close_door(door))
        return server

    def open_door(self, host: Any, port: Any, accept: Callable[[End], None]) -> Door:
        place = self._host(host), int(port or self.free_port())
        if place in self._doors:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        door = self._doors[place] = Door(place, accept)
        return door

    def close_door(self, door: Door) -> None:
        if self._doors.get(door.place) is door:
            del self._doors[door.place]
            door.close()

    def free_port(self) -> int:
        self._next_port += 1
        return self._next_port


def _wake(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)


def _nothing() -> None:
    """Nobody wants to know."""
