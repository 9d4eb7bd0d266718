"""After a response, the event loop polls or blocks, depending on what polling has found."""

from itertools import pairwise

from pykbroker.transport.busy_polling import (
    ITERATIONS_MIN,
    POLL_SECONDS,
    SKIPPED_MAX,
    BusyPolling,
)
from pykbroker.transport.limits import ConnectionLimits
from pykbroker.transport.listener import bind
from pykbroker.transport.socket_server import SocketServer
from tests.transport.raw import RawClient, until

SOON, LATE = POLL_SECONDS / 3, POLL_SECONDS * 3


def burst(polling: BusyPolling, responses: int, begin: float) -> bool:
    """Responds in quick succession, then no more; returns True if the loop polled."""
    polls = False
    for number in range(responses):
        now = begin + number * SOON
        if polling.responded(now):
            polls = True
        if polls:
            assert polling.continues(now + SOON)
    end = begin + responses * SOON + LATE
    if polls:
        assert not polling.continues(end)
    return polls


def test_polling_continues_as_long_as_it_finds_requests() -> None:
    polling = BusyPolling()
    assert all(burst(polling, ITERATIONS_MIN + 1, begin) for begin in range(100))


def test_the_pause_doubles_after_each_useless_poll() -> None:
    polling = BusyPolling()
    polled_at = [number for number in range(100) if burst(polling, 1, number)]
    assert polled_at == [0, 2, 5, 10, 19, 36, 69]


def test_responses_of_one_turn_count_once() -> None:
    polling = BusyPolling()
    assert polling.responded(0)
    for _ in range(100):
        assert not polling.responded(0)
    assert polling.continues(SOON)
    assert not polling.continues(LATE)
    assert not polling.responded(1)


def test_the_pause_between_polls_is_bounded() -> None:
    polling = BusyPolling()
    polled_at = [number for number in range(20_000) if burst(polling, 1, number)]
    gaps = [later - earlier for earlier, later in pairwise(polled_at)]
    assert max(gaps) == SKIPPED_MAX + 1


def test_a_useful_poll_resets_the_pause() -> None:
    polling = BusyPolling()
    for number in range(50):
        burst(polling, 1, number)
    assert burst(polling, 2 * SKIPPED_MAX, 50)
    assert [burst(polling, 1, number) for number in (51, 52, 53)] == [True, False, True]


async def test_a_polling_server_responds_and_then_blocks() -> None:
    polling = BusyPolling()
    server = SocketServer(lambda frame, _: [bytes(frame)], ConnectionLimits(), busy_polling=polling)
    listener = await bind("PLAINTEXT", "127.0.0.1", 0, server.limits)
    server.open(listener)
    try:
        async with RawClient(listener.address.port) as client:
            for number in range(1000):
                await client.send_frames(b"%d" % number)
                assert await client.receive_frame() == b"%d" % number
            await until(lambda: not polling.is_polling)
    finally:
        await server.stop(timeout_seconds=0)
