"""Programs on simulated hosts: starting and killing them."""

from __future__ import annotations

import asyncio
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, TypeVar

from pykbroker.testing.simulation.hosts import THIS_HOST

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from pykbroker.testing.simulation.virtual_loop import VirtualLoop

T = TypeVar("T")

ROUNDS_MAX = 1_000


def start_on(loop: VirtualLoop, host: str, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    context = copy_context()
    context.run(THIS_HOST.set, host)
    return loop.create_task(work, context=context)


async def kill_all(loop: VirtualLoop, host: str) -> None:
    """Cancels every task of a host until none is left. Their cleanup reaches no other host."""
    own = asyncio.current_task()
    for _ in range(ROUNDS_MAX):
        alive = [it for it in loop.tasks_at(host) if it is not own]
        if not alive:
            return
        for task in alive:
            task.cancel()
        await asyncio.sleep(0.001)
    raise AssertionError(f"tasks on {host} do not end when they are cancelled: {alive}")
