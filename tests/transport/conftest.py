"""Everything that touches an event loop is tested on both loops the broker runs on."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
import uvloop

from pykbroker.apis.answers import Serve
from pykbroker.transport.edge import NetworkEdge
from pykbroker.transport.limits import ConnectionLimits
from pykbroker.transport.listener import bind
from tests.transport.raw import OpenEdge, ServedEdge

LoopFactory = Callable[[], asyncio.AbstractEventLoop]


def pytest_asyncio_loop_factories() -> dict[str, LoopFactory]:
    return {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.SelectorEventLoop}


@pytest.fixture
async def open_edge() -> AsyncIterator[OpenEdge]:
    """Opens network edges on free ports and stops them when the test is over."""
    opened: list[NetworkEdge] = []

    async def open_one(serve: Serve, limits: ConnectionLimits | None = None) -> ServedEdge:
        edge = NetworkEdge(
            serve, limits or ConnectionLimits(), now_ms=lambda: 0.0, work_clock=lambda: 0.0
        )
        opened.append(edge)
        listener = await bind("PLAINTEXT", "127.0.0.1", 0, edge.limits)
        edge.open(listener)
        return ServedEdge(edge, listener.address.port)

    yield open_one
    for edge in opened:
        await edge.stop(deadline_s=0)
