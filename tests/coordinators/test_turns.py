"""Deferred decisions of several partitions: one in each iteration of the event loop."""

from __future__ import annotations

import asyncio
from functools import partial

from pykbroker.coordinators.turns import Turns


async def iterations(order: list[str], count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)
        order.append("requests")


async def test_requests_are_served_between_two_deferred_decisions() -> None:
    turns, order = Turns(), list[str]()
    for name in ("one", "two", "three"):
        turns.wait(name, partial(order.append, name))
    await iterations(order, 3)
    assert order == ["one", "requests", "two", "requests", "three", "requests"]


async def test_a_decision_that_is_deferred_again_waits_for_the_others() -> None:
    turns, order = Turns(), list[str]()

    def again() -> None:
        order.append("long")
        if order.count("long") < 3:
            turns.wait("long", again)

    turns.wait("long", again)
    turns.wait("short", lambda: order.append("short"))
    await iterations([], 6)
    assert order == ["long", "short", "long", "long"]


async def test_a_cancelled_decision_is_not_made_and_delays_no_other() -> None:
    turns, order = Turns(), list[str]()
    for name in ("one", "two", "three"):
        turns.wait(name, partial(order.append, name))
    turns.cancel("one")
    turns.cancel("two")
    await iterations(order, 1)
    assert order == ["three", "requests"]


async def test_a_decision_that_fails_does_not_stop_the_others() -> None:
    turns, order, failures = Turns(), list[str](), list[object]()
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: failures.append(context["exception"])
    )
    failure = ValueError("for the test")

    def fail() -> None:
        raise failure

    turns.wait("one", fail)
    turns.wait("two", lambda: order.append("two"))
    await iterations(order, 2)
    assert order == ["requests", "two", "requests"]
    assert failures == [failure]
