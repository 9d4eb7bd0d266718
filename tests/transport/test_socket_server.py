"""Listeners, connection quotas, idle and disconnected peers, and shutdown."""

import asyncio
import errno
import logging
import os
import resource
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from types import MappingProxyType
from typing import NoReturn

import pytest

from pykbroker.apis.answers import Answer, Ready, Waiting
from pykbroker.apis.peer import Peer
from pykbroker.transport import paused_peers
from pykbroker.transport.limits import ConnectionLimits
from pykbroker.transport.listener import CannotListen, Listener, PortInUse, bind
from pykbroker.transport.socket_server import SocketServer
from tests.transport.raw import OpenServer, RawClient, RunningServer, until


def echo(frame: memoryview, _: Peer) -> Answer:
    return [frame]


async def is_served(client: RawClient) -> bool:
    try:
        await client.send_frames(b"ping")
        return await client.receive_frame() == b"ping"
    except (AssertionError, ConnectionError):
        return False


@pytest.fixture
async def clients() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


async def test_a_port_in_use_fails_at_bind() -> None:
    limits = ConnectionLimits()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortInUse, match=rf"127\.0\.0\.1:{port}.*in use"):
            await bind("PLAINTEXT", "127.0.0.1", port, limits)


@pytest.mark.parametrize("host", ["203.0.113.7", "no-such-host.invalid"])
async def test_an_address_of_another_host_cannot_be_bound(host: str) -> None:
    with pytest.raises(CannotListen, match=host):
        await bind("PLAINTEXT", host, 0, ConnectionLimits())


async def test_only_one_of_two_servers_bound_to_a_port_can_listen() -> None:
    first = await bind("PLAINTEXT", "127.0.0.1", 0, ConnectionLimits())
    second = await bind("PLAINTEXT", "127.0.0.1", first.address.port, ConnectionLimits())
    servers = [SocketServer(echo, ConnectionLimits()) for _ in range(2)]
    servers[0].open(first)
    with pytest.raises(PortInUse):
        servers[1].open(second)
    for server in servers:
        await server.stop(timeout_seconds=0)


def has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


@pytest.mark.parametrize(
    ("host", "reached_at", "seen_as"),
    [
        ("127.0.0.1", ["127.0.0.1"], {"127.0.0.1"}),
        ("localhost", ["127.0.0.1"], {"127.0.0.1"}),
        ("0.0.0.0", ["127.0.0.1"], {"127.0.0.1"}),
        ("::1", ["::1"], {"::1"}),
        ("::", ["127.0.0.1", "::1"], {"127.0.0.1", "::1"}),
        ("", ["127.0.0.1", "::1"], {"127.0.0.1", "::1"}),
    ],
)
async def test_a_listener_accepts_on_all_its_addresses(
    host: str, reached_at: list[str], seen_as: set[str]
) -> None:
    if not has_ipv6() and "::1" in reached_at:
        pytest.skip("this host has no IPv6")
    seen: set[str] = set()

    def serve(frame: memoryview, peer: Peer) -> Answer:
        seen.add(peer.host)
        return [frame]

    server = SocketServer(serve, ConnectionLimits())
    listener = await bind("PLAINTEXT", host, 0, server.limits)
    server.open(listener)
    for where in reached_at:
        reader, writer = await asyncio.open_connection(where, listener.address.port)
        writer.write(bytes(4))
        assert await reader.readexactly(4) == bytes(4)
        writer.close()
        await writer.wait_closed()
    await server.stop(timeout_seconds=1)
    assert seen == seen_as


async def test_handlers_get_listener_address_and_connection_id_of_the_peer() -> None:
    peers: list[Peer] = []

    def serve(frame: memoryview, peer: Peer) -> Answer:
        peers.append(peer)
        return [frame]

    server = SocketServer(serve, ConnectionLimits())
    for name in ("CLIENTS", "BROKERS"):
        listener = await bind(name, "127.0.0.1", 0, server.limits)
        server.open(listener)
        async with RawClient(listener.address.port) as client:
            assert await is_served(client)
            assert (peers[-1].host, peers[-1].port) == ("127.0.0.1", client.local_port)
    await server.stop(timeout_seconds=1)
    assert [peer.listener for peer in peers] == ["CLIENTS", "BROKERS"]
    assert len({peer.connection_id for peer in peers}) == 2


async def test_connections_above_the_maximum_wait_until_one_closes(
    open_server: OpenServer,
) -> None:
    served = await open_server(echo, ConnectionLimits(connections_max=2))
    async with served.client() as first, served.client() as second, served.client() as third:
        assert await is_served(first)
        assert await is_served(second)
        await third.send_frames(b"let me in")
        await asyncio.sleep(0.02)
        assert served.server.connection_count == 2
        first.reset()
        assert await third.receive_frame() == b"let me in"


async def test_waiting_connections_are_accepted_after_raising_the_maximum(
    open_server: OpenServer,
) -> None:
    served = await open_server(echo, ConnectionLimits(connections_max=0))
    async with served.client() as client:
        await client.send_frames(b"let me in")
        await asyncio.sleep(0.02)
        assert served.server.connection_count == 0
        served.server.limits = replace(served.server.limits, connections_max=1)
        assert await client.receive_frame() == b"let me in"


async def test_connections_above_the_quota_of_their_address_are_rejected(
    open_server: OpenServer, caplog: pytest.LogCaptureFixture
) -> None:
    overrides = MappingProxyType({"127.0.0.1": 1})
    limits = ConnectionLimits(connections_per_ip_max=0, connections_per_ip_overrides=overrides)
    served = await open_server(echo, limits)
    async with served.client() as first, served.client() as second:
        assert await is_served(first)
        assert not await is_served(second)
    assert "127.0.0.1 on listener PLAINTEXT: connection rejected" in caplog.text


async def test_idle_connections_are_closed(open_server: OpenServer) -> None:
    served = await open_server(echo, ConnectionLimits(idle_ms_max=1000))
    async with served.client() as lively, served.client() as silent:
        assert await is_served(silent)
        assert await is_served(lively)
        served.server.close_idle(now_ms=10)
        assert await is_served(lively)
        served.server.close_idle(now_ms=1010)
        assert await is_served(lively)
        served.server.close_idle(now_ms=1011)
        assert await silent.is_closed_by_the_broker()
        assert await is_served(lively)


async def test_idle_connections_are_checked_periodically() -> None:
    server = SocketServer(echo, ConnectionLimits())
    server.limits = ConnectionLimits(idle_ms_max=60)
    listener = await bind("PLAINTEXT", "127.0.0.1", 0, server.limits)
    server.open(listener)
    async with RawClient(listener.address.port) as client:
        assert await client.is_closed_by_the_broker()
    await server.stop(timeout_seconds=1)


async def test_a_shorter_idle_time_applies_to_open_connections() -> None:
    server = SocketServer(echo, ConnectionLimits(idle_ms_max=-1))
    listener = await bind("PLAINTEXT", "127.0.0.1", 0, server.limits)
    server.open(listener)
    async with RawClient(listener.address.port) as client:
        assert await is_served(client)
        server.limits = ConnectionLimits(idle_ms_max=60)
        assert await client.is_closed_by_the_broker()
    await server.stop(timeout_seconds=1)


def client_hello() -> bytes:
    sent = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        ssl.create_default_context().wrap_bio(
            ssl.MemoryBIO(), sent, server_hostname="a"
        ).do_handshake()
    return sent.read()


@pytest.mark.parametrize(
    ("sent", "protocol"),
    [
        (b"GET /metrics HTTP/1.1\r\nHost: broker\r\n\r\n", "HTTP"),
        (b"POST /topics/orders HTTP/1.1\r\n\r\n", "HTTP"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP"),
        (client_hello(), "TLS (this listener is PLAINTEXT)"),
    ],
)
async def test_http_and_tls_clients_are_named_in_the_log(
    open_server: OpenServer, caplog: pytest.LogCaptureFixture, sent: bytes, protocol: str
) -> None:
    served = await open_server(echo)
    async with served.client() as client:
        await client.send(sent)
        assert await client.is_closed_by_the_broker()
        peer = f"client without id at 127.0.0.1:{client.local_port} on listener PLAINTEXT"
    reason = f"received {protocol} instead of the Kafka protocol"
    assert f"{peer}: connection closed ({reason})" in caplog.text


async def test_a_negative_idle_time_closes_no_connection(open_server: OpenServer) -> None:
    served = await open_server(echo, ConnectionLimits(idle_ms_max=-1))
    async with served.client() as client:
        assert await is_served(client)
        for now_ms in (1, 1e12):
            served.server.close_idle(now_ms)
        assert await is_served(client)


async def test_a_connection_that_waits_for_a_response_can_be_idle(
    open_server: OpenServer,
) -> None:
    """Apache Kafka does the same (tried); no other bound ends the wait of a Fetch."""
    answer: asyncio.Future[Ready] = asyncio.get_running_loop().create_future()
    served = await open_server(
        lambda _, __: Waiting(answer, pipelined=False), ConnectionLimits(idle_ms_max=1000)
    )
    async with served.client() as client:
        await client.send_frames(b"join")
        await until(lambda: bool(served.server._context.waits))
        for now_ms in (0, 1000):
            served.server.close_idle(now_ms)
        assert served.server.connection_count == 1
        served.server.close_idle(1001)
        assert await client.is_closed_by_the_broker()
        assert answer.cancelled()


def serve_fetches(frame: memoryview, _: Peer) -> Answer:
    """A `fetch` waits forever; other requests are answered at once."""
    if bytes(frame) != b"fetch":
        return [bytes(frame)]
    return Waiting(asyncio.Event().wait(), pipelined=False, answer_only=True)  # type: ignore[arg-type]  # never comes


async def polled_until(server: SocketServer, condition: Callable[[], bool]) -> None:
    def is_so() -> bool:
        server.poll_paused_peers()
        return condition()

    await until(is_so)


@pytest.mark.parametrize("requests", [2, 150])
async def test_a_disconnect_behind_a_waiting_fetch_is_detected(
    open_server: OpenServer, requests: int
) -> None:
    served = await open_server(serve_fetches)
    async with served.client() as client:
        await client.send_frames(*[b"fetch"] * requests)
        await until(lambda: bool(served.server._context.paused_peers._connections))
        served.server.poll_paused_peers()
        assert served.server.connection_count == 1
    await polled_until(served.server, lambda: served.server.connection_count == 0)
    assert not served.server._context.paused_peers._connections


async def test_requests_behind_a_waiting_fetch_are_served_after_the_peer_closed(
    open_server: OpenServer,
) -> None:
    done = []

    def serve(frame: memoryview, peer: Peer) -> Answer:
        done.append(bytes(frame))
        return serve_fetches(frame, peer)

    served = await open_server(serve)
    async with served.client() as client:
        await client.send_frames(b"fetch", b"produce", b"fetch")
        await until(lambda: done == [b"fetch"])
        client.end()
        await polled_until(served.server, lambda: served.server.connection_count == 0)
        assert not await client.receive_some()
    assert done == [b"fetch", b"produce", b"fetch"]


async def test_a_reset_is_detected_while_reading_is_paused(
    open_server: OpenServer,
) -> None:
    served = await open_server(lambda _, __: Waiting(asyncio.Event().wait(), pipelined=False))  # type: ignore[arg-type]  # never comes
    async with served.client() as client:
        await client.send_frames(b"join", b"join")
        await until(lambda: bool(served.server._context.paused_peers._connections))
        client.reset()
        await polled_until(served.server, lambda: served.server.connection_count == 0)


async def test_paused_peers_are_polled_periodically(
    open_server: OpenServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paused_peers, "POLL_INTERVAL_SECONDS", 0.01)
    served = await open_server(serve_fetches)
    async with served.client() as client:
        await client.send_frames(b"fetch", b"fetch")
        await until(lambda: bool(served.server._context.paused_peers._connections))
    await until(lambda: served.server.connection_count == 0)


async def test_a_stalled_reader_is_closed_after_the_idle_time(open_server: OpenServer) -> None:
    answer = bytes(8 << 20)
    limits = ConnectionLimits(idle_ms_max=1000, send_buffer_bytes=65536)
    served = await open_server(lambda _, __: [answer], limits)
    async with served.client(receive_buffer_bytes=65536) as client:
        await client.send_frames(b"fetch", b"fetch")
        await client.receive_exactly(1000)
        await asyncio.sleep(0.02)
        for now_ms in (0, 1, 2000):
            served.server.close_idle(now_ms)
        await until(lambda: served.server.connection_count == 0)


async def test_stop_sends_released_responses_and_cancels_waiting_requests(
    open_server: OpenServer,
) -> None:
    answer = bytes(4 << 20)
    cancelled = asyncio.Event()

    async def never() -> Ready:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return None

    served = await open_server(
        lambda frame, _: Waiting(never(), pipelined=True) if frame else [answer],
        ConnectionLimits(unsent_bytes_max=2 * len(answer)),  # independent of the kernel buffers
    )
    async with served.client() as client:
        await client.send_frames(b"", b"never")
        await until(lambda: bool(served.server._context.waits))
        async with asyncio.TaskGroup() as group:
            group.create_task(served.server.stop(timeout_seconds=5))
            received = group.create_task(client.receive_exactly(4 + len(answer)))
        assert len(received.result()) == 4 + len(answer)
        assert await client.is_closed_by_the_broker()
    assert cancelled.is_set()
    assert served.server.connection_count == 0


async def test_stop_does_not_wait_for_a_stalled_reader_after_its_timeout(
    open_server: OpenServer,
) -> None:
    served = await open_server(lambda _, __: [bytes(32 << 20)])
    async with served.client() as client:
        await client.send_frames(b"fetch")
        await client.receive_exactly(4)
        await served.server.stop(timeout_seconds=0.02)
        assert served.server.connection_count == 0


async def test_connections_are_refused_after_stop(open_server: OpenServer) -> None:
    served = await open_server(echo)
    await served.server.stop(timeout_seconds=0)
    client = served.client()
    with pytest.raises(ConnectionRefusedError):
        await client.__aenter__()
    await client.__aexit__(None, None, None)


async def test_a_connection_accepted_during_stop_is_closed(open_server: OpenServer) -> None:
    served = await open_server(echo)
    async with served.client() as client:
        for _ in range(3):
            await asyncio.sleep(0)
        await served.server.stop(timeout_seconds=0)
        assert served.server.connection_count == 0
        assert await client.is_closed_by_the_broker()


async def test_accepting_pauses_without_file_descriptors(
    open_server: OpenServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    attempts = 0

    class Exhausted:
        def __init__(self, bound: socket.socket) -> None:
            self._bound = bound

        def accept(self) -> NoReturn:
            nonlocal attempts
            attempts += 1
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

        def fileno(self) -> int:
            return self._bound.fileno()

    accept = Listener._accept
    monkeypatch.setattr("pykbroker.transport.socket_server.ACCEPT_RETRY_SECONDS", 0.05)
    served = await open_server(echo)
    (listener,) = served.server._listeners
    listener.pause()
    monkeypatch.setattr(
        Listener,
        "_accept",
        lambda self, bound: accept(self, Exhausted(bound)),  # type: ignore[arg-type] # a socket whose accept fails
    )
    listener.resume()
    async with served.client() as client:
        await client.send_frames(b"let me in")
        await asyncio.sleep(0.02)
        assert attempts == 1
        monkeypatch.setattr(Listener, "_accept", accept)
        assert await client.receive_frame() == b"let me in"
    assert "connections cannot be accepted" in caplog.text


@pytest.fixture
def many_files() -> Iterator[int]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield min(hard, 1 << 20)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_a_thousand_idle_connections_are_closed(
    open_server: OpenServer, clients: AsyncExitStack, many_files: int
) -> None:
    if many_files < 2_500:
        pytest.skip("this host allows too few open files")
    served: RunningServer = await open_server(echo, ConnectionLimits(idle_ms_max=1000))
    for _ in range(1_000):
        await clients.enter_async_context(served.client())
    await until(lambda: len(served.server._context.connections) == 1_000)
    for now_ms in (1, 2_000):
        served.server.close_idle(now_ms)
    await until(lambda: served.server.connection_count == 0)


@pytest.fixture(autouse=True)
def log_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="pykbroker")
