"""Large requests are served in slices, and a request holds a bounded number of elements."""

from __future__ import annotations

import asyncio
import sys
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from pykbroker import Broker
from pykbroker.broker import Broker as Node
from pykbroker.settings import load_settings
from pykbroker_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.apis.wire import Closed, Wire

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from pykbroker_protocol.message import Message

ELEMENTS_MAX = 20_000
CALLS_MAX = 40_000
"""Function calls in one iteration of the loop: 512 elements take up to eighty each."""


def metadata(count: int, *, creates: bool = False) -> MetadataRequest:
    return MetadataRequest(
        topics=[MetadataRequestTopic(name=f"topic-{it}") for it in range(count)],
        allow_auto_topic_creation=creates,
    )


def test_a_request_with_too_many_elements_closes_its_connection_with_a_line_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with Broker(config={"socket.request.max.elements": 1000}) as broker:
        port = int(broker.bootstrap.rpartition(":")[2])
        with Wire(port) as wire:
            assert len(wire.ask(metadata(1000), 12).topics) == 1000
            with pytest.raises(Closed):
                wire.ask(metadata(1001), 12)
    line = "its Metadata request holds more than 1000 elements (socket.request.max.elements)"
    assert line in caplog.text


def test_a_request_behind_a_large_one_is_answered_after_it() -> None:
    with Broker() as broker, Wire(int(broker.bootstrap.rpartition(":")[2])) as wire:
        for count in (5000, 1, 2000, 2):
            wire.send(metadata(count), 12)
        for count in (5000, 1, 2000, 2):
            names = [it.name for it in wire.receive(MetadataRequest, 12).topics]
            assert names == [it.name for it in metadata(count).topics or ()]


class Busy:
    """Counts the calls of functions in each iteration of the event loop."""

    def __init__(self) -> None:
        self._calls = 0
        self.most = 0

    @contextmanager
    def counting(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()

        def count(*_: object) -> None:
            self._calls += 1

        def next_iteration() -> None:
            nonlocal handle
            self.most, self._calls = max(self.most, self._calls), 0
            handle = loop.call_soon(next_iteration)

        handle = loop.call_soon(next_iteration)
        before = sys.getprofile()
        sys.setprofile(count)
        try:
            yield
        finally:
            sys.setprofile(before)
            handle.cancel()


@asynccontextmanager
async def node_in(directory: Path) -> AsyncIterator[Node]:
    settings = load_settings(
        {
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": str(directory),
            "socket.request.max.elements": str(ELEMENTS_MAX),
        }
    )
    node = await Node.start(settings, ephemeral=True)
    try:
        yield node
    finally:
        await node.stop()


LARGEST: dict[str, Callable[[], Message]] = {
    "metadata of missing topics": lambda: metadata(ELEMENTS_MAX),
}


@pytest.mark.parametrize("what", LARGEST)
async def test_no_request_occupies_the_loop_for_more_than_a_slice(
    what: str, tmp_path: Path
) -> None:
    request: Any = LARGEST[what]()
    async with node_in(tmp_path) as node:
        busy = Busy()
        with busy.counting():
            await asyncio.to_thread(ask, node.bound_port, request)
        assert busy.most < CALLS_MAX


def ask(port: int, request: Message) -> Message:
    with Wire(port) as wire:
        answer: Message = wire.ask(request, request.versions.last)
        return answer
