"""Who may come in, who has to leave, and how it all ends."""

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
from pykbroker.transport import unread_ends
from pykbroker.transport.edge import NetworkEdge
from pykbroker.transport.limits import ConnectionLimits
from pykbroker.transport.listener import CannotListen, Listener, PortInUse, bind
from tests.transport.raw import OpenEdge, RawClient, ServedEdge, until


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


async def test_a_port_in_use_is_told_before_anything_is_served() -> None:
    limits = ConnectionLimits()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortInUse, match=rf"127\.0\.0\.1:{port}.*in use"):
            await bind("PLAINTEXT", "127.0.0.1", port, limits)


@pytest.mark.parametrize("host", ["203.0.113.7", "no-such-host.invalid"])
async def test_an_address_that_is_not_ours_cannot_be_listened_on(host: str) -> None:
    with pytest.raises(CannotListen, match=host):
        await bind("PLAINTEXT", host, 0, ConnectionLimits())


async def test_two_brokers_that_bound_the_same_port_do_not_both_listen() -> None:
    first = await bind("PLAINTEXT", "127.0.0.1", 0, ConnectionLimits())
    second = await bind("PLAINTEXT", "127.0.0.1", first.address.port, ConnectionLimits())
    edges = [NetworkEdge(echo, ConnectionLimits()) for _ in range(2)]
    edges[0].open(first)
    with pytest.raises(PortInUse):
        edges[1].open(second)
    for edge in edges:
        await edge.stop(deadline_s=0)


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
async def test_a_listener_is_reached_at_all_its_addresses(
    host: str, reached_at: list[str], seen_as: set[str]
) -> None:
    if not has_ipv6() and "::1" in reached_at:
        pytest.skip("this machine has no IPv6")
    seen: set[str] = set()

    def serve(frame: memoryview, peer: Peer) -> Answer:
        seen.add(peer.host)
        return [frame]

    edge = NetworkEdge(serve, ConnectionLimits())
    listener = await bind("PLAINTEXT", host, 0, edge.limits)
    edge.open(listener)
    for where in reached_at:
        reader, writer = await asyncio.open_connection(where, listener.address.port)
        writer.write(bytes(4))
        assert await reader.readexactly(4) == bytes(4)
        writer.close()
        await writer.wait_closed()
    await edge.stop(deadline_s=1)
    assert seen == seen_as


async def test_handlers_know_from_which_listener_and_program_a_request_comes() -> None:
    peers: list[Peer] = []

    def serve(frame: memoryview, peer: Peer) -> Answer:
        peers.append(peer)
        return [frame]

    edge = NetworkEdge(serve, ConnectionLimits())
    for name in ("CLIENTS", "BROKERS"):
        listener = await bind(name, "127.0.0.1", 0, edge.limits)
        edge.open(listener)
        async with RawClient(listener.address.port) as client:
            assert await is_served(client)
            assert (peers[-1].host, peers[-1].port) == ("127.0.0.1", client.local_port)
    await edge.stop(deadline_s=1)
    assert [peer.listener for peer in peers] == ["CLIENTS", "BROKERS"]
    assert len({peer.connection_id for peer in peers}) == 2


async def test_beyond_the_bound_newcomers_wait_until_somebody_leaves(open_edge: OpenEdge) -> None:
    served = await open_edge(echo, ConnectionLimits(connections_max=2))
    async with served.client() as first, served.client() as second, served.client() as third:
        assert await is_served(first)
        assert await is_served(second)
        await third.send_frames(b"let me in")
        await asyncio.sleep(0.02)
        assert served.edge.connection_count == 2
        first.reset()
        assert await third.receive_frame() == b"let me in"


async def test_raising_the_bound_lets_newcomers_in(open_edge: OpenEdge) -> None:
    served = await open_edge(echo, ConnectionLimits(connections_max=0))
    async with served.client() as client:
        await client.send_frames(b"let me in")
        await asyncio.sleep(0.02)
        assert served.edge.connection_count == 0
        served.edge.limits = replace(served.edge.limits, connections_max=1)
        assert await client.receive_frame() == b"let me in"


async def test_one_address_cannot_take_all_connections(
    open_edge: OpenEdge, caplog: pytest.LogCaptureFixture
) -> None:
    overrides = MappingProxyType({"127.0.0.1": 1})
    limits = ConnectionLimits(connections_per_ip_max=0, connections_per_ip_overrides=overrides)
    served = await open_edge(echo, limits)
    async with served.client() as first, served.client() as second:
        assert await is_served(first)
        assert not await is_served(second)
    assert "turned away a connection from 127.0.0.1" in caplog.text


async def test_connections_on_which_nothing_moves_are_closed(open_edge: OpenEdge) -> None:
    served = await open_edge(echo, ConnectionLimits(idle_ms_max=1000))
    async with served.client() as lively, served.client() as silent:
        assert await is_served(silent)
        assert await is_served(lively)
        served.edge.close_idle(now_ms=10)
        assert await is_served(lively)
        served.edge.close_idle(now_ms=1010)
        assert await is_served(lively)
        served.edge.close_idle(now_ms=1011)
        assert await silent.is_closed_by_the_broker()
        assert await is_served(lively)


async def test_the_edge_looks_for_idle_connections_by_itself() -> None:
    edge = NetworkEdge(echo, ConnectionLimits())
    edge.limits = ConnectionLimits(idle_ms_max=60)
    listener = await bind("PLAINTEXT", "127.0.0.1", 0, edge.limits)
    edge.open(listener)
    async with RawClient(listener.address.port) as client:
        assert await client.is_closed_by_the_broker()
    await edge.stop(deadline_s=1)


async def test_a_shorter_idle_time_holds_for_connections_that_are_open() -> None:
    edge = NetworkEdge(echo, ConnectionLimits(idle_ms_max=-1))
    listener = await bind("PLAINTEXT", "127.0.0.1", 0, edge.limits)
    edge.open(listener)
    async with RawClient(listener.address.port) as client:
        assert await is_served(client)
        edge.limits = ConnectionLimits(idle_ms_max=60)
        assert await client.is_closed_by_the_broker()
    await edge.stop(deadline_s=1)


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
async def test_a_peer_that_speaks_http_or_tls_is_named_in_the_log(
    open_edge: OpenEdge, caplog: pytest.LogCaptureFixture, sent: bytes, protocol: str
) -> None:
    served = await open_edge(echo)
    async with served.client() as client:
        await client.send(sent)
        assert await client.is_closed_by_the_broker()
        peer = f"an unnamed client at 127.0.0.1:{client.local_port} on listener PLAINTEXT"
    reason = f"received {protocol} instead of the Kafka protocol"
    assert f"closing the connection of {peer}: {reason}" in caplog.text


async def test_without_a_bound_nobody_is_idle(open_edge: OpenEdge) -> None:
    served = await open_edge(echo, ConnectionLimits(idle_ms_max=-1))
    async with served.client() as client:
        assert await is_served(client)
        for now_ms in (1, 1e12):
            served.edge.close_idle(now_ms)
        assert await is_served(client)


async def test_a_peer_that_waits_for_an_answer_is_closed_after_the_idle_time(
    open_edge: OpenEdge,
) -> None:
    """As by Apache Kafka, which was asked: no bound of its own ends the wait of a Fetch."""
    answer: asyncio.Future[Ready] = asyncio.get_running_loop().create_future()
    served = await open_edge(
        lambda _, __: Waiting(answer, pipelined=False), ConnectionLimits(idle_ms_max=1000)
    )
    async with served.client() as client:
        await client.send_frames(b"join")
        await until(lambda: bool(served.edge._around.waits))
        for now_ms in (0, 1000):
            served.edge.close_idle(now_ms)
        assert served.edge.connection_count == 1
        served.edge.close_idle(1001)
        assert await client.is_closed_by_the_broker()
        assert answer.cancelled()


def serve_fetches(frame: memoryview, _: Peer) -> Answer:
    """Each `fetch` waits for ever; any other request is answered at once."""
    if bytes(frame) != b"fetch":
        return [bytes(frame)]
    return Waiting(asyncio.Event().wait(), pipelined=False, answer_only=True)  # type: ignore[arg-type]  # never comes


async def looked_until(edge: NetworkEdge, condition: Callable[[], bool]) -> None:
    def is_so() -> bool:
        edge.look_for_unread_ends()
        return condition()

    await until(is_so)


@pytest.mark.parametrize("requests", [2, 150])
async def test_a_peer_that_leaves_behind_a_waiting_fetch_is_closed_though_it_is_not_read(
    open_edge: OpenEdge, requests: int
) -> None:
    served = await open_edge(serve_fetches)
    async with served.client() as client:
        await client.send_frames(*[b"fetch"] * requests)
        await until(lambda: bool(served.edge._around.unread_ends._connections))
        served.edge.look_for_unread_ends()
        assert served.edge.connection_count == 1
    await looked_until(served.edge, lambda: served.edge.connection_count == 0)
    assert not served.edge._around.unread_ends._connections


async def test_what_a_peer_sent_behind_a_waiting_fetch_is_still_done_when_it_has_gone(
    open_edge: OpenEdge,
) -> None:
    done = []

    def serve(frame: memoryview, peer: Peer) -> Answer:
        done.append(bytes(frame))
        return serve_fetches(frame, peer)

    served = await open_edge(serve)
    async with served.client() as client:
        await client.send_frames(b"fetch", b"produce", b"fetch")
        await until(lambda: done == [b"fetch"])
        client.end()
        await looked_until(served.edge, lambda: served.edge.connection_count == 0)
        assert not await client.receive_some()
    assert done == [b"fetch", b"produce", b"fetch"]


async def test_a_peer_that_is_gone_while_it_is_not_read_gets_no_answer(
    open_edge: OpenEdge,
) -> None:
    served = await open_edge(lambda _, __: Waiting(asyncio.Event().wait(), pipelined=False))  # type: ignore[arg-type]  # never comes
    async with served.client() as client:
        await client.send_frames(b"join", b"join")
        await until(lambda: bool(served.edge._around.unread_ends._connections))
        client.reset()
        await looked_until(served.edge, lambda: served.edge.connection_count == 0)


async def test_the_edge_looks_for_unread_ends_by_itself(
    open_edge: OpenEdge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unread_ends, "LOOK_INTERVAL_S", 0.01)
    served = await open_edge(serve_fetches)
    async with served.client() as client:
        await client.send_frames(b"fetch", b"fetch")
        await until(lambda: bool(served.edge._around.unread_ends._connections))
    await until(lambda: served.edge.connection_count == 0)


async def test_a_reader_that_stalls_is_closed_after_the_idle_time(open_edge: OpenEdge) -> None:
    answer = bytes(8 << 20)
    limits = ConnectionLimits(idle_ms_max=1000, send_buffer_bytes=65536)
    served = await open_edge(lambda _, __: [answer], limits)
    async with served.client(receive_buffer_bytes=65536) as client:
        await client.send_frames(b"fetch", b"fetch")
        await client.receive_exactly(1000)
        await asyncio.sleep(0.02)
        for now_ms in (0, 1, 2000):
            served.edge.close_idle(now_ms)
        await until(lambda: served.edge.connection_count == 0)


async def test_a_stop_sends_what_is_answered_and_cancels_what_is_not(open_edge: OpenEdge) -> None:
    answer = bytes(4 << 20)
    cancelled = asyncio.Event()

    async def never() -> Ready:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return None

    served = await open_edge(
        lambda frame, _: Waiting(never(), pipelined=True) if frame else [answer],
        ConnectionLimits(unsent_bytes_max=2 * len(answer)),  # however much of it the kernel takes
    )
    async with served.client() as client:
        await client.send_frames(b"", b"never")
        await until(lambda: bool(served.edge._around.waits))
        async with asyncio.TaskGroup() as group:
            group.create_task(served.edge.stop(deadline_s=5))
            received = group.create_task(client.receive_exactly(4 + len(answer)))
        assert len(received.result()) == 4 + len(answer)
        assert await client.is_closed_by_the_broker()
    assert cancelled.is_set()
    assert served.edge.connection_count == 0


async def test_a_stop_does_not_wait_for_a_stalled_reader_beyond_its_deadline(
    open_edge: OpenEdge,
) -> None:
    served = await open_edge(lambda _, __: [bytes(32 << 20)])
    async with served.client() as client:
        await client.send_frames(b"fetch")
        await client.receive_exactly(4)
        await served.edge.stop(deadline_s=0.02)
        assert served.edge.connection_count == 0


async def test_after_a_stop_nobody_gets_in(open_edge: OpenEdge) -> None:
    served = await open_edge(echo)
    await served.edge.stop(deadline_s=0)
    client = served.client()
    with pytest.raises(ConnectionRefusedError):
        await client.__aenter__()
    await client.__aexit__(None, None, None)


async def test_a_newcomer_in_the_moment_of_the_stop_is_let_go(open_edge: OpenEdge) -> None:
    served = await open_edge(echo)
    async with served.client() as client:
        for _ in range(3):
            await asyncio.sleep(0)
        await served.edge.stop(deadline_s=0)
        assert served.edge.connection_count == 0
        assert await client.is_closed_by_the_broker()


async def test_without_file_descriptors_accepting_rests_and_does_not_spin(
    open_edge: OpenEdge, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
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
    monkeypatch.setattr("pykbroker.transport.edge.ACCEPT_RETRY_S", 0.05)
    served = await open_edge(echo)
    (listener,) = served.edge._listeners
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
    assert "cannot accept connections" in caplog.text


@pytest.fixture
def many_files() -> Iterator[int]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield min(hard, 1 << 20)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_a_thousand_idle_connections_come_and_go(
    open_edge: OpenEdge, clients: AsyncExitStack, many_files: int
) -> None:
    if many_files < 2_500:
        pytest.skip("this machine allows too few files")
    served: ServedEdge = await open_edge(echo, ConnectionLimits(idle_ms_max=1000))
    for _ in range(1_000):
        await clients.enter_async_context(served.client())
    await until(lambda: len(served.edge._around.connections) == 1_000)
    for now_ms in (1, 2_000):
        served.edge.close_idle(now_ms)
    await until(lambda: served.edge.connection_count == 0)


@pytest.fixture(autouse=True)
def log_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="pykbroker")
