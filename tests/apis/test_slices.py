"""Work in slices: results of generators and sharing of the event loop."""

from __future__ import annotations

import asyncio
import gc
import warnings
from typing import TYPE_CHECKING

import pytest

from pykbroker.apis.answers import Deferred, ProtocolViolation
from pykbroker.apis.slices import RESPONSE_ELEMENTS_MAX, Slice, in_slices, next_turn
from pykbroker_protocol.compiler import SLICE_ELEMENTS

if TYPE_CHECKING:
    from collections.abc import Generator


def finished(slices: Generator[None, None, list[int]]) -> tuple[list[int], int]:
    turns = 0
    while True:
        try:
            next(slices)
        except StopIteration as done:
            return done.value, turns
        turns += 1


@pytest.mark.parametrize("elements", [0, 1, SLICE_ELEMENTS - 1, SLICE_ELEMENTS, 2345])
def test_elements_are_answered_in_order_with_a_yield_after_each_slice(elements: int) -> None:
    answers, turns = finished(Slice().each(lambda it: -it, range(elements)))
    assert answers == [-it for it in range(elements)]
    assert turns == (elements + 1) // SLICE_ELEMENTS


def test_small_arrays_share_a_slice() -> None:
    count = Slice()
    turns = sum(finished(count.each(abs, range(3)))[1] for _ in range(SLICE_ELEMENTS))
    assert turns == 4


def test_a_response_with_too_many_elements_is_a_protocol_violation() -> None:
    count = Slice()
    finished(count.each(abs, range(RESPONSE_ELEMENTS_MAX - SLICE_ELEMENTS)))
    with pytest.raises(ProtocolViolation, match="more than 1000000 elements"):
        finished(count.each(abs, range(2 * SLICE_ELEMENTS)))


async def test_the_event_loop_runs_one_slice_per_iteration() -> None:
    log: list[str] = []

    def work(name: str) -> Generator[None, None, str]:
        for _ in range(3):
            log.append(name)
            yield
        return name

    def iteration() -> None:
        log.append("|")
        if not works.done():
            loop.call_soon(iteration)

    loop = asyncio.get_running_loop()
    works = asyncio.gather(*(in_slices(work(name)) for name in "abc"))
    loop.call_soon(iteration)
    assert await works == ["a", "b", "c"]
    slices = [part for part in "".join(log).split("|") if part]
    assert slices == list("abc" * 3)


async def test_a_cancelled_turn_is_skipped() -> None:
    first, second = next_turn(), next_turn()
    first.cancel()
    await second


def test_closing_before_the_start_leaves_no_unawaited_coroutine() -> None:
    async def answer() -> int:
        return 1

    async def follow(first: object) -> object:
        return first

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        Deferred(Deferred(answer(), follow), follow).close()
        gc.collect()
    assert not warned
