"""A served connection over real sockets, on both event loops."""

import asyncio
import gc
import logging
import random
import weakref
from collections.abc import Callable
from dataclasses import replace

import pytest

from pykbroker.apis.answers import Answer, ProtocolViolation, Ready, Waiting
from pykbroker.apis.peer import Peer
from pykbroker.transport.limits import ConnectionLimits
from pykbroker.transport.listener import bind
from pykbroker.transport.socket_server import SocketServer
from tests.transport.raw import OpenServer, RawClient, framed, until

MEGABYTE = 1 << 20


def echo(frame: memoryview, _: Peer) -> Answer:
    return [b"<", frame, b">"]


def echoed(body: bytes) -> bytes:
    return b"<" + body + b">"


async def test_ten_thousand_pipelined_requests_are_answered_in_order(
    open_server: OpenServer,
) -> None:
    served = await open_server(echo)
    bodies = [b"%d" % n for n in range(10_000)]
    async with served.client() as client, asyncio.TaskGroup() as group:
        group.create_task(client.send_frames(*bodies))
        answers = group.create_task(client.receive_frames(10_000))
    assert answers.result() == [echoed(body) for body in bodies]


@pytest.mark.parametrize(("milliseconds", "requests_max"), [(0, 64), (3, 3), (20, 2)])
async def test_pipelined_requests_yield_to_other_connections(
    milliseconds: int, requests_max: int
) -> None:
    now_s, log = 0.0, ""

    def serve(frame: memoryview, _: Peer) -> Answer:
        nonlocal now_s, log
        now_s += milliseconds / 1000
        log += "."
        return [frame]

    marking: asyncio.Handle

    def iteration() -> None:
        nonlocal log, marking
        log += "|"
        marking = loop.call_soon(iteration)

    loop = asyncio.get_running_loop()
    server = SocketServer(serve, ConnectionLimits(), work_clock=lambda: now_s)
    listener = await bind("PLAINTEXT", "127.0.0.1", 0, server.limits)
    server.open(listener)
    async with RawClient(listener.address.port) as client:
        marking = loop.call_soon(iteration)
        await client.send_frames(*[b"heavy"] * 200)
        assert await client.receive_frames(200) == [b"heavy"] * 200
        marking.cancel()
    await server.stop(timeout_seconds=1)
    assert max(map(len, log.split("|"))) == requests_max


async def test_responses_that_complete_out_of_order_are_sent_in_order(
    open_server: OpenServer,
) -> None:
    source = random.Random(7)

    async def later(frame: memoryview) -> Ready:
        for _ in range(source.randrange(5)):
            await asyncio.sleep(0)
        return [frame]

    def serve(frame: memoryview, _: Peer) -> Answer:
        if source.random() < 0.3:
            return [frame]
        return Waiting(later(frame), pipelined=source.random() < 0.7)

    served = await open_server(serve)
    bodies = [b"%d" % n for n in range(3_000)]
    async with served.client() as client, asyncio.TaskGroup() as group:
        group.create_task(client.send_frames(*bodies))
        answers = group.create_task(client.receive_frames(3_000))
    assert answers.result() == bodies


async def test_frames_split_at_any_byte_are_reassembled(open_server: OpenServer) -> None:
    served = await open_server(echo)
    async with served.client() as client:
        for at in range(1, 10):
            data = framed(b"one") + framed(b"two")
            await client.send(data[:at])
            await asyncio.sleep(0.002)
            await client.send(data[at:])
            assert await client.receive_frames(2) == [echoed(b"one"), echoed(b"two")]


@pytest.mark.parametrize("size", [-1, -(2**31), 1001, 2**31 - 1])
async def test_an_invalid_frame_size_closes_the_connection_after_earlier_responses(
    open_server: OpenServer, caplog: pytest.LogCaptureFixture, size: int
) -> None:
    def serve(frame: memoryview, peer: Peer) -> Answer:
        peer.client_id = "truck\n42"
        return [frame]

    served = await open_server(serve, ConnectionLimits(request_bytes_max=1000))
    async with served.client() as client:
        local_port = client.local_port
        await client.send(framed(b"good") + size.to_bytes(4, "big", signed=True))
        assert await client.receive_frame() == b"good"
        assert await client.is_closed_by_the_broker()
    (line,) = caplog.messages
    assert all(part in line for part in (f"127.0.0.1:{local_port}", r"'truck\n42'", str(size)))


async def test_a_protocol_violation_in_a_handler_closes_the_connection(
    open_server: OpenServer, caplog: pytest.LogCaptureFixture
) -> None:
    async def late() -> Ready:
        raise ProtocolViolation("late nonsense")

    def serve(frame: memoryview, _: Peer) -> Answer:
        if bytes(frame) == b"late":
            return Waiting(late(), pipelined=True)
        raise ProtocolViolation("nonsense")

    served = await open_server(serve)
    for body in (b"now", b"late"):
        async with served.client() as client:
            await client.send_frames(body)
            assert await client.is_closed_by_the_broker()
    reasons = [line.rpartition(" (")[2] for line in caplog.messages]
    assert reasons == ["nonsense)", "late nonsense)"]


async def test_an_internal_error_closes_only_its_connection(
    open_server: OpenServer, caplog: pytest.LogCaptureFixture
) -> None:
    async def late_bug() -> Ready:
        raise KeyError("late")

    def serve(frame: memoryview, _: Peer) -> Answer:
        if bytes(frame) == b"bug":
            raise ValueError("now")
        if bytes(frame) == b"late":
            return Waiting(late_bug(), pipelined=True)
        return [frame]

    served = await open_server(serve)
    async with served.client() as bystander:
        for body in (b"bug", b"late"):
            async with served.client() as client:
                await client.send_frames(b"first", body)
                assert await client.receive_frame() == b"first"
                assert await client.is_closed_by_the_broker()
        await bystander.send_frames(b"still here")
        assert await bystander.receive_frame() == b"still here"
    assert [record.exc_info is not None for record in caplog.records] == [True, True]


async def test_a_request_without_response_sends_no_bytes(open_server: OpenServer) -> None:
    served = await open_server(lambda frame, _: None if bytes(frame) == b"acks=0" else [frame])
    async with served.client() as client:
        await client.send_frames(b"acks=0", b"1", b"acks=0", b"acks=0", b"2")
        assert await client.receive_frames(2) == [b"1", b"2"]


async def test_an_empty_response_is_an_empty_frame(open_server: OpenServer) -> None:
    served = await open_server(lambda _, __: [])
    async with served.client() as client:
        await client.send_frames(b"", b"x")
        assert await client.receive_exactly(8) == bytes(8)


async def test_large_requests_and_responses_arrive_whole(open_server: OpenServer) -> None:
    served = await open_server(echo)
    body = random.Random(1).randbytes(3 * MEGABYTE)
    async with served.client() as client, asyncio.TaskGroup() as group:
        group.create_task(client.send_frames(body, b"small", body))
        answers = group.create_task(client.receive_frames(3))
    assert answers.result() == [echoed(body), echoed(b"small"), echoed(body)]


async def test_a_muted_connection_serves_no_request_until_the_response(
    open_server: OpenServer,
) -> None:
    seen: list[bytes] = []
    answer: asyncio.Future[Ready] = asyncio.get_running_loop().create_future()

    def serve(frame: memoryview, _: Peer) -> Answer:
        seen.append(bytes(frame))
        return Waiting(answer, pipelined=False) if bytes(frame) == b"join" else [frame]

    served = await open_server(serve)
    async with served.client() as client, served.client() as other:
        await client.send_frames(b"join", b"next")
        await until(lambda: bool(seen))
        await client.send_frames(b"after that")
        await other.send_frames(b"other")
        assert await other.receive_frame() == b"other"
        assert seen == [b"join", b"other"]
        answer.set_result([b"joined"])
        assert await client.receive_frames(3) == [b"joined", b"next", b"after that"]


async def test_a_half_closed_connection_gets_its_responses_before_the_close(
    open_server: OpenServer,
) -> None:
    async def later() -> Ready:
        await asyncio.sleep(0.01)
        return [b"later"]

    served = await open_server(
        lambda frame, _: Waiting(later(), pipelined=False) if bytes(frame) == b"wait" else [frame]
    )
    async with served.client() as client:
        await client.send_frames(b"1", b"wait", b"2")
        client.end()
        assert await client.receive_frames(3) == [b"1", b"later", b"2"]
        assert await client.is_closed_by_the_broker()
    await until(lambda: served.server.connection_count == 0)


async def test_an_incomplete_frame_is_discarded(open_server: OpenServer) -> None:
    served = await open_server(echo)
    async with served.client() as client:
        await client.send(framed(b"whole") + framed(b"cut")[:-1])
        client.end()
        assert await client.receive_frame() == echoed(b"whole")
        assert await client.is_closed_by_the_broker()


class Waits:
    """A handler that never responds and counts cancellations."""

    def __init__(self, *, answer_only: bool) -> None:
        self.answer_only = answer_only
        self.begun = 0
        self.cancelled = 0

    def serve(self, _frame: memoryview, _peer: Peer) -> Answer:
        return Waiting(self.forever(), pipelined=True, answer_only=self.answer_only)

    async def forever(self) -> Ready:
        self.begun += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled += 1
        return None


@pytest.mark.parametrize("leave", [RawClient.reset, RawClient.end])
async def test_waiting_requests_are_cancelled_when_the_peer_disconnects(
    open_server: OpenServer, leave: Callable[[RawClient], None]
) -> None:
    waits = Waits(answer_only=leave is RawClient.end)
    served = await open_server(waits.serve)
    async with served.client() as client:
        await client.send_frames(b"1", b"2", b"3")
        await until(lambda: waits.begun == 3)
        leave(client)
        await until(lambda: served.server.connection_count == 0)
    await until(lambda: waits.cancelled == 3)


async def test_requests_after_a_cancelled_fetch_are_served_without_response(
    open_server: OpenServer,
) -> None:
    done: list[bytes] = []
    fetch = Waits(answer_only=True)

    def serve(frame: memoryview, peer: Peer) -> Answer:
        done.append(bytes(frame))
        return fetch.serve(frame, peer) if bytes(frame) == b"fetch" else [frame]

    served = await open_server(serve)
    async with served.client() as client:
        await client.send_frames(b"1", b"fetch", b"leave group")
        client.end()
        assert await client.receive_frame() == b"1"
        assert await client.receive_some() == b""
    assert done == [b"1", b"fetch", b"leave group"]


async def test_a_stalled_reader_has_bounded_buffers_and_delays_no_other_connection(
    open_server: OpenServer,
) -> None:
    served_requests = 0
    answer = memoryview(bytes(MEGABYTE))

    def serve(frame: memoryview, _: Peer) -> Answer:
        nonlocal served_requests
        if bytes(frame) == b"ping":
            return [b"pong"]
        served_requests += 1
        return [answer]

    served = await open_server(serve, ConnectionLimits(send_buffer_bytes=65536))
    async with served.client(receive_buffer_bytes=65536) as stalled, served.client() as other:
        await stalled.send_frames(*[b"fetch"] * 1_000)
        await until(lambda: served_requests > 0)
        for _ in range(50):
            await other.send_frames(b"ping")
            assert await other.receive_frame() == b"pong"
        assert served_requests < 5
        for _ in range(20):
            await stalled.receive_exactly(4 + MEGABYTE)


async def test_reading_stops_at_the_limit_of_requests_in_flight(
    open_server: OpenServer,
) -> None:
    waits = Waits(answer_only=True)
    served = await open_server(waits.serve, ConnectionLimits(requests_in_flight_max=5))
    async with served.client() as client:
        sending = asyncio.create_task(client.send(framed(bytes(1000)) * 50_000))
        await until(lambda: waits.begun == 5)
        await asyncio.sleep(0.05)
        assert not sending.done(), "the socket buffers are full and the broker does not read"
        assert waits.begun == 5
        sending.cancel()


async def test_changed_limits_apply_to_open_connections(open_server: OpenServer) -> None:
    served = await open_server(echo)
    async with served.client() as client:
        await client.send_frames(b"123456")
        assert await client.receive_frame() == b"<123456>"
        served.server.limits = replace(served.server.limits, request_bytes_max=5)
        await client.send_frames(b"12345", b"123456")
        assert await client.receive_frame() == b"<12345>"
        assert await client.is_closed_by_the_broker()


async def test_a_lost_connection_leaves_no_garbage_cycle(open_server: OpenServer) -> None:
    async def later(frame: memoryview) -> Ready:
        await asyncio.sleep(0)
        return [frame]

    served = await open_server(lambda frame, _: Waiting(later(frame), pipelined=True))
    gc.collect()
    gc.disable()
    try:
        async with served.client() as client:
            await client.send_frames(b"1", b"2")
            await client.receive_frames(2)
            (connection,) = served.server._context.connections
            remains = weakref.ref(connection)
            del connection
        await until(lambda: served.server.connection_count == 0)
        await until(lambda: remains() is None)
    finally:
        gc.enable()


@pytest.fixture(autouse=True)
def log_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="pykbroker")
