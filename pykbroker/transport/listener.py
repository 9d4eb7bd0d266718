"""A listener: a named address on which connections are accepted."""

import asyncio
import errno
import socket
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from pykbroker.address import Address
from pykbroker.transport.limits import SYSTEM_DEFAULT, ConnectionLimits

ACCEPTS_PER_TURN_MAX: Final = 64
"""After this many accepted connections the open ones are served."""

BIND_ATTEMPTS_MAX: Final = 5
"""The port selected by the system for one address family may be in use in the other."""

EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""No file descriptor or memory for a connection; an immediate retry would spin."""

SocketAddress: TypeAlias = tuple[Any, ...]  # host and port; IPv6 adds flow and scope
OnAccepted: TypeAlias = Callable[[socket.socket, str, int, "Listener"], None]


class CannotListen(Exception):
    """The address cannot be bound; the message is one line for the operator."""


class PortInUse(CannotListen):
    """Another process or another listener has bound the port."""


class Listener:
    """Bound sockets of one name; a host name can resolve to an IPv4 and an IPv6 address.

    Binding and accepting are separate steps: a start fails early if the port is in use, and accepts
    connections only when requests can be served.
    """

    def __init__(self, name: str, address: Address, sockets: list[socket.socket]) -> None:
        self.name = name
        self.address = address  # as requested, with the selected port
        self._sockets = sockets
        self._on_accepted: OnAccepted | None = None
        self._on_exhausted: Callable[[OSError], None] | None = None
        self._is_accepting = False

    def open(
        self, backlog_max: int, on_accepted: OnAccepted, on_exhausted: Callable[[OSError], None]
    ) -> None:
        """Starts accepting; accepting is paused before `on_exhausted` is called."""
        self._on_accepted = on_accepted
        self._on_exhausted = on_exhausted
        for bound in self._sockets:
            try:
                bound.listen(backlog_max)
            except OSError as error:
                raise _cannot_listen(self.address, error) from error
        self.resume()

    def pause(self) -> None:
        """Stops accepting; new connections wait in the backlog of the kernel."""
        if self._is_accepting:
            self._is_accepting = False
            for bound in self._sockets:
                asyncio.get_running_loop().remove_reader(bound)

    def resume(self) -> None:
        if not self._is_accepting and self._on_accepted is not None and self._sockets:
            self._is_accepting = True
            for bound in self._sockets:
                asyncio.get_running_loop().add_reader(bound, self._accept, bound)

    def close(self) -> None:
        """Releases the address; accepted connections stay open."""
        self.pause()
        for bound in self._sockets:
            bound.close()
        self._sockets = []

    def _accept(self, bound: socket.socket) -> None:
        for _ in range(ACCEPTS_PER_TURN_MAX):
            if not self._is_accepting:  # the last connection reached max.connections
                return
            try:
                accepted, remote = bound.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in EXHAUSTED:
                    self.pause()
                    assert self._on_exhausted is not None
                    self._on_exhausted(error)
                    return
                continue  # the client has already disconnected
            accepted.setblocking(False)
            assert self._on_accepted is not None
            self._on_accepted(accepted, _plain_ip(remote[0]), remote[1], self)


async def bind(name: str, host: str, port: int, limits: ConnectionLimits) -> Listener:
    """Takes the address; port 0 picks one, an empty host means every interface."""
    for attempt in range(1, BIND_ATTEMPTS_MAX + 1):
        try:
            return await _bind_once(name, host, port, limits)
        except PortInUse:
            if port != 0 or attempt == BIND_ATTEMPTS_MAX:
                raise
    raise AssertionError


async def _bind_once(name: str, host: str, port: int, limits: ConnectionLimits) -> Listener:
    sockets: list[socket.socket] = []
    missing: OSError | None = None
    try:
        found = await _resolve(host, port)
        for family, where in found:
            try:
                sockets.append(_bound(family, (where[0], port, *where[2:]), limits, len(found)))
            except OSError as error:
                # A machine without IPv6 still resolves localhost to ::1.
                if error.errno not in {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}:
                    raise
                missing = error
            else:
                port = sockets[0].getsockname()[1]
        if missing is not None and not sockets:
            raise missing
    except OSError as error:
        for bound in sockets:
            bound.close()
        raise _cannot_listen(Address(host=host, port=port), error) from error
    return Listener(name, Address(host=host, port=port), sockets)


async def _resolve(host: str, port: int) -> list[tuple[int, SocketAddress]]:
    found = await asyncio.get_running_loop().getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    return list(dict.fromkeys((family, where) for family, _, _, _, where in found))


def _bound(
    family: int, where: SocketAddress, limits: ConnectionLimits, addresses: int
) -> socket.socket:
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setblocking(False)
        _set_options(bound, limits)
        if family == socket.AF_INET6:
            # [::] alone accepts IPv4 too; beside 0.0.0.0 it must not.
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, addresses > 1)
        bound.bind(where)
    except BaseException:
        bound.close()
        raise
    return bound


def _set_options(bound: socket.socket, limits: ConnectionLimits) -> None:
    """Accepted sockets inherit these options."""
    if not hasattr(socket, "SO_EXCLUSIVEADDRUSE"):  # on Windows, reuse steals ports
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if limits.send_buffer_bytes != SYSTEM_DEFAULT:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, limits.send_buffer_bytes)
    if limits.receive_buffer_bytes != SYSTEM_DEFAULT:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, limits.receive_buffer_bytes)


def _cannot_listen(address: Address, error: OSError) -> CannotListen:
    if error.errno == errno.EADDRINUSE:
        return PortInUse(f"cannot listen on {address}: the port is in use")
    return CannotListen(f"cannot listen on {address}: {error.strerror or error}")


def _plain_ip(host: str) -> str:
    """Returns the IPv4 address of a connection that an IPv6 socket accepted."""
    return host.removeprefix("::ffff:") if "." in host else host
