"""Our own client connection: answers in order, and a clear word when there is none."""

import asyncio
import socket
import struct

import pytest

from pykbroker.apis.answers import Answer, Ready, Waiting
from pykbroker.apis.peer import Peer
from pykbroker.transport.client import Connection, Disconnected, TimedOut
from tests.transport.raw import OpenEdge, until

HOST = "127.0.0.1"


def serve(frame: memoryview, _: Peer) -> Answer:
    """Answers with what was asked, after a while, or never, as asked."""

    async def after_a_while() -> Ready:
        await asyncio.sleep(0.03)
        return [frame]

    match bytes(frame[:1]):
        case b"s":
            return Waiting(after_a_while(), pipelined=True)
        case b"n":
            return None
        case _:
            return [frame]


async def test_answers_come_to_whom_asked(open_edge: OpenEdge) -> None:
    served = await open_edge(serve)
    async with await Connection.open(HOST, served.port) as connection:
        asked = [[b"slow ", b"%d" % n] if n % 3 == 0 else [b"%d" % n] for n in range(100)]
        answers = await asyncio.gather(*map(connection.request, asked))
    assert [bytes(answer) for answer in answers] == [b"".join(parts) for parts in asked]


async def test_a_large_request_and_answer_arrive_whole(open_edge: OpenEdge) -> None:
    served = await open_edge(serve)
    body = bytes(range(256)) * 20_000
    async with await Connection.open(HOST, served.port) as connection:
        assert await connection.request([b"x", body]) == b"x" + body


async def test_a_request_without_an_answer_takes_nobody_elses(open_edge: OpenEdge) -> None:
    served = await open_edge(serve)
    async with await Connection.open(HOST, served.port) as connection:
        await connection.send([b"nothing"])
        assert bytes(await connection.request([b"1"])) == b"1"


async def test_after_a_timeout_the_late_answer_is_dropped(open_edge: OpenEdge) -> None:
    served = await open_edge(serve)
    async with await Connection.open(HOST, served.port) as connection:
        with pytest.raises(TimedOut, match=f"{HOST}:{served.port} did not answer in 0.001 s"):
            await connection.request([b"slow"], timeout_s=0.001)
        assert bytes(await connection.request([b"1"])) == b"1"


async def test_nobody_listens(unused_tcp_port: int) -> None:
    with pytest.raises(Disconnected, match=f"cannot connect to {HOST}:{unused_tcp_port}"):
        await Connection.open(HOST, unused_tcp_port)


async def test_a_lost_connection_fails_what_waits_and_what_comes_later(
    open_edge: OpenEdge,
) -> None:
    served = await open_edge(serve)
    async with await Connection.open(HOST, served.port) as connection:
        waiting = asyncio.create_task(connection.request([b"slow"]))
        await until(lambda: served.edge.connection_count == 1)
        await served.edge.stop(deadline_s=0)
        with pytest.raises(Disconnected):
            await waiting
        assert not connection.is_open
        with pytest.raises(Disconnected, match=f"{HOST}:{served.port}"):
            await connection.request([b"1"])


async def test_closing_ends_what_waits(open_edge: OpenEdge) -> None:
    served = await open_edge(serve)
    connection = await Connection.open(HOST, served.port)
    waiting = asyncio.create_task(connection.request([b"slow"]))
    await asyncio.sleep(0)
    await connection.close()
    with pytest.raises(Disconnected, match="closed by this program"):
        await waiting


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (struct.pack(">i", -1), "-1 is negative"),
        (struct.pack(">i", 1001), "maximum of 1000"),
        (bytes(4) + bytes(4), "not asked"),
    ],
)
async def test_a_broker_that_talks_nonsense_is_left(answer: bytes, reason: str) -> None:
    loop = asyncio.get_running_loop()
    with socket.create_server((HOST, 0)) as listening:
        listening.setblocking(False)
        port = listening.getsockname()[1]
        connection = await Connection.open(HOST, port, response_bytes_max=1000)
        broker, _ = await loop.sock_accept(listening)
        with broker:
            asked = asyncio.create_task(connection.request([b"1"]))
            await loop.sock_recv(broker, 100)
            await loop.sock_sendall(broker, answer)
            await until(lambda: not connection.is_open)
        if reason == "not asked":
            assert not await asked
        else:
            with pytest.raises(Disconnected, match=reason):
                await asked
        with pytest.raises(Disconnected, match=reason):
            await connection.request([b"2"])
        await connection.close()


async def test_a_broker_that_takes_nothing_times_out() -> None:
    with socket.create_server((HOST, 0)) as listening:
        connection = await Connection.open(HOST, listening.getsockname()[1], timeout_s=0.05)

        async def send_without_end() -> None:
            while True:
                await connection.send([bytes(100_000)])

        with pytest.raises(TimedOut, match="takes no more"):
            await send_without_end()
        connection._wire.abort()
        await connection.close()
