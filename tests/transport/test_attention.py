"""The moment after an answer: whether the next request is looked for, or slept for."""

from itertools import pairwise

from pykbroker.transport.attention import (
    LEFT_OUT_MAX,
    LOOK_SECONDS,
    TURNS_WORTH_A_LOOK,
    Attention,
)
from pykbroker.transport.edge import NetworkEdge
from pykbroker.transport.limits import ConnectionLimits
from pykbroker.transport.listener import bind
from tests.transport.raw import RawClient, until

SOON, LATE = LOOK_SECONDS / 3, LOOK_SECONDS * 3


def burst(attention: Attention, answers: int, begin: float) -> bool:
    """Answers one soon after the other, and then nothing; whether they were looked for."""
    looking = False
    for number in range(answers):
        now = begin + number * SOON
        if attention.answered(now):
            looking = True
        if looking:
            assert attention.looks_on(now + SOON)
    end = begin + answers * SOON + LATE
    if looking:
        assert not attention.looks_on(end)
    return looking


def test_requests_are_looked_for_as_long_as_they_come() -> None:
    attention = Attention()
    assert all(burst(attention, TURNS_WORTH_A_LOOK + 1, begin) for begin in range(100))


def test_looking_in_vain_is_left_out_twice_as_long_each_time() -> None:
    attention = Attention()
    looked_at = [number for number in range(100) if burst(attention, 1, number)]
    assert looked_at == [0, 2, 5, 10, 19, 36, 69]


def test_answers_that_leave_together_were_not_looked_for() -> None:
    attention = Attention()
    assert attention.answered(0)
    for _ in range(100):
        assert not attention.answered(0)
    assert attention.looks_on(SOON)
    assert not attention.looks_on(LATE)
    assert not attention.answered(1)


def test_it_is_tried_again_now_and_then() -> None:
    attention = Attention()
    looked_at = [number for number in range(20_000) if burst(attention, 1, number)]
    gaps = [later - earlier for earlier, later in pairwise(looked_at)]
    assert max(gaps) == LEFT_OUT_MAX + 1


def test_a_burst_that_was_worth_it_forgives_all() -> None:
    attention = Attention()
    for number in range(50):
        burst(attention, 1, number)
    assert burst(attention, 2 * LEFT_OUT_MAX, 50)
    assert [burst(attention, 1, number) for number in (51, 52, 53)] == [True, False, True]


async def test_an_attentive_edge_answers_and_then_sleeps() -> None:
    attention = Attention()
    edge = NetworkEdge(lambda frame, _: [bytes(frame)], ConnectionLimits(), attention=attention)
    listener = await bind("PLAINTEXT", "127.0.0.1", 0, edge.limits)
    edge.open(listener)
    try:
        async with RawClient(listener.address.port) as client:
            for number in range(1000):
                await client.send_frames(b"%d" % number)
                assert await client.receive_frame() == b"%d" % number
            await until(lambda: not attention.is_looking)
    finally:
        await edge.stop(deadline_s=0)
