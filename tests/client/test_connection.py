"""A connection to a broker: responses go to their requests, and each failure has a clear error."""

import asyncio
import socket
import struct
from collections.abc import Callable

import pytest

from pykbroker.address import Address
from pykbroker.apis.answers import Answer, Ready, Waiting
from pykbroker.apis.peer import Peer
from pykbroker.client.connection import Connection, Encode
from pykbroker.client.connection_options import ConnectionOptions
from pykbroker.client.errors import Disconnected, InvalidResponse, TimedOut
from pykbroker.clock import Callback, MayWait, SystemClock, never
from tests.transport.raw import OpenServer, until

HOST = "127.0.0.1"
PATIENT_SECONDS = 30.0
BRIEF_SECONDS = 0.001


def echo(frame: memoryview, _: Peer) -> Answer:
    """Returns the request: at once, later ("s"), or never ("n")."""

    async def later() -> Ready:
        await asyncio.sleep(0.03)
        return [frame]

    match bytes(frame[4:5]):
        case b"s":
            return Waiting(later(), pipelined=True)
        case b"n":
            return None
        case _:
            return [frame]


def encoding(*parts: bytes) -> Encode:
    return lambda correlation_id: [correlation_id.to_bytes(4, "big"), *parts]


async def exchange(connection: Connection, *parts: bytes) -> bytes:
    response = await connection.request(encoding(*parts), timeout_seconds=PATIENT_SECONDS)
    return bytes(response[4:])


async def connect(port: int, options: ConnectionOptions | None = None) -> Connection:
    return await Connection.open(Address(HOST, port), options)


async def test_each_response_goes_to_its_request(open_server: OpenServer) -> None:
    served = await open_server(echo)
    async with await connect(served.port) as connection:
        bodies = [(b"slow ", b"%d" % n) if n % 3 == 0 else (b"%d" % n,) for n in range(100)]
        responses = await asyncio.gather(*(exchange(connection, *parts) for parts in bodies))
    assert responses == [b"".join(parts) for parts in bodies]


async def test_a_large_request_and_response_arrive_whole(open_server: OpenServer) -> None:
    served = await open_server(echo)
    body = bytes(range(256)) * 20_000
    async with await connect(served.port) as connection:
        assert await exchange(connection, b"x", body) == b"x" + body


async def test_a_request_without_response_takes_no_other_response(
    open_server: OpenServer,
) -> None:
    served = await open_server(echo)
    async with await connect(served.port) as connection:
        await connection.send(encoding(b"nothing"), timeout_seconds=PATIENT_SECONDS)
        assert await exchange(connection, b"1") == b"1"


async def test_the_response_to_a_timed_out_request_is_discarded(open_server: OpenServer) -> None:
    served = await open_server(echo)
    async with await connect(served.port) as connection:
        text = f"{HOST}:{served.port} did not respond in {BRIEF_SECONDS:g} s"
        with pytest.raises(TimedOut, match=text):
            await connection.request(encoding(b"slow"), timeout_seconds=BRIEF_SECONDS)
        assert await exchange(connection, b"1") == b"1"


async def test_requests_in_flight_are_bounded(
    open_server: OpenServer,
) -> None:
    received: list[bytes] = []
    released = asyncio.Event()

    def hold(frame: memoryview, _: Peer) -> Answer:
        received.append(bytes(frame[4:]))

        async def released_response() -> Ready:
            await released.wait()
            return [frame]

        return Waiting(released_response(), pipelined=True)

    served = await open_server(hold)
    async with await connect(served.port, ConnectionOptions(in_flight_max=2)) as connection:
        requests = [asyncio.create_task(exchange(connection, b"%d" % n)) for n in range(5)]
        await until(lambda: len(received) == 2)
        assert len(connection._protocol._in_flight) == 2
        released.set()
        assert await asyncio.gather(*requests) == [b"0", b"1", b"2", b"3", b"4"]


class Timer:
    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback = callback
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class ManualTimers(SystemClock):
    """A clock whose timers expire when a test calls them."""

    def __init__(self) -> None:
        self.timers: list[Timer] = []

    def call_later(
        self, seconds: float, callback: Callback, *given: object, may_wait: MayWait = never
    ) -> Timer:
        del seconds, may_wait
        self.timers.append(Timer(lambda: callback(*given)))
        return self.timers[-1]


async def test_a_request_times_out_by_the_clock_of_the_options(open_server: OpenServer) -> None:
    clock = ManualTimers()
    served = await open_server(echo)
    async with await connect(served.port, ConnectionOptions(clock=clock)) as connection:
        request = asyncio.create_task(exchange(connection, b"slow"))
        await until(lambda: len(clock.timers) == 2)  # the first one was for the connect
        clock.timers[-1].callback()
        with pytest.raises(TimedOut):
            await request


async def test_the_timer_of_a_completed_request_is_cancelled(open_server: OpenServer) -> None:
    clock = ManualTimers()
    served = await open_server(echo)
    async with await connect(served.port, ConnectionOptions(clock=clock)) as connection:
        await exchange(connection, b"1")
    assert [it.is_cancelled for it in clock.timers] == [True, True]


async def test_a_closed_port_is_named_in_the_error(unused_tcp_port: int) -> None:
    text = f"cannot connect to {HOST}:{unused_tcp_port}: connection refused"
    with pytest.raises(Disconnected, match=text):
        await connect(unused_tcp_port)


async def test_requests_fail_when_the_connection_is_lost_and_afterwards(
    open_server: OpenServer,
) -> None:
    served = await open_server(echo)
    async with await connect(served.port) as connection:
        waiting = asyncio.create_task(exchange(connection, b"slow"))
        await until(lambda: served.server.connection_count == 1)
        await served.server.stop(timeout_seconds=0)
        with pytest.raises(Disconnected):
            await waiting
        assert not connection.is_open
        with pytest.raises(Disconnected, match=f"{HOST}:{served.port}"):
            await exchange(connection, b"1")


async def test_close_fails_requests_in_flight(open_server: OpenServer) -> None:
    served = await open_server(echo)
    connection = await connect(served.port)
    waiting = asyncio.create_task(exchange(connection, b"slow"))
    await asyncio.sleep(0)
    await connection.close()
    with pytest.raises(Disconnected, match="closed here"):
        await waiting


def response(correlation_id: int, size: int = 4) -> bytes:
    return struct.pack(">ii", size, correlation_id)


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (struct.pack(">i", -1), "frame size -1 is negative"),
        (struct.pack(">i", 1001), "frame size 1001 exceeds the maximum of 1000"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "frame size 1213486160 exceeds"),
        (b"\x16\x03\x03\x00\x02", "received TLS"),
        (struct.pack(">ih", 2, 0), "response of 2 bytes has no correlation id"),
        (response(7), "response has correlation id 7, expected 1"),
        (response(1) + response(2), "received a response without a request"),
    ],
)
async def test_a_protocol_violation_closes_the_connection(sent: bytes, reason: str) -> None:
    loop = asyncio.get_running_loop()
    with socket.create_server((HOST, 0)) as listening:
        listening.setblocking(False)
        options = ConnectionOptions(response_bytes_max=1000)
        connection = await connect(listening.getsockname()[1], options)
        broker, _ = await loop.sock_accept(listening)
        with broker:
            request = asyncio.create_task(exchange(connection, b"1"))
            await loop.sock_recv(broker, 100)
            await loop.sock_sendall(broker, sent)
            await until(lambda: not connection.is_open)
        if sent.startswith(response(1)):
            assert await request == b""
        else:
            with pytest.raises(InvalidResponse, match=reason):
                await request
        with pytest.raises(InvalidResponse, match=reason):
            await exchange(connection, b"2")
        await connection.close()


async def test_sending_times_out_if_the_broker_does_not_read() -> None:
    with socket.create_server((HOST, 0)) as listening:
        connection = await connect(listening.getsockname()[1])

        async def send_without_end() -> None:
            while True:
                await connection.send(encoding(bytes(100_000)), timeout_seconds=0.05)

        with pytest.raises(TimedOut, match="did not read the requests"):
            await send_without_end()
        connection._protocol.abort()
        await connection.close()
