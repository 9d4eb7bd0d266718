"""A connection that is lost before its request starts leaves no coroutine unawaited."""

from __future__ import annotations

import asyncio
import gc
import warnings
from typing import TYPE_CHECKING, Any

import pytest

from pykbroker import AsyncBroker
from pykbroker.broker import Broker as Node
from pykbroker.controller_access import NewTopic
from pykbroker.environment import Environment
from pykbroker.settings import load_settings
from pykbroker_protocol.frame import write_request
from pykbroker_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from pykbroker_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pykbroker_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from pykbroker_storage.filesystem import VolatileDisk

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pykbroker_protocol.message import Message

WAITING: dict[str, tuple[Message, int]] = {
    "a fetch that waits": (
        FetchRequest(
            max_wait_ms=60_000,
            min_bytes=1,
            topics=[
                FetchTopic(
                    topic="orders",
                    partitions=[
                        FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
                    ],
                )
            ],
        ),
        11,
    ),
    "a command to the controller": (
        CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name="new", num_partitions=1, replication_factor=1, assignments=(), configs=()
                )
            ],
            timeout_ms=1000,
        ),
        5,
    ),
    "a large request": (
        MetadataRequest(topics=[MetadataRequestTopic(name=f"t{it}") for it in range(2000)]),
        12,
    ),
}


@pytest.fixture
def left_unawaited() -> Iterator[list[str]]:
    """Warnings of Python during a test."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        found: list[str] = []
        yield found
        gc.collect()
        found.extend(str(it.message) for it in warned)
    assert not found


async def lose_a_connection_before_its_request_begins(node: Any, what: str) -> None:
    """Aborts the connection when the task of the request exists but has not run."""
    context = node.socket_server._context
    serve, served = context.serve, asyncio.Event()

    def serve_and_lose(frame: memoryview, peer: Any) -> Any:
        (connection,) = context.connections
        asyncio.get_running_loop().call_soon(connection.abort)
        served.set()
        return serve(frame, peer)

    context.serve = serve_and_lose
    reader, writer = await asyncio.open_connection("127.0.0.1", node.bound_port)
    request, version = WAITING[what]
    frame = b"".join(write_request(request, version, 1, "test"))
    writer.write(len(frame).to_bytes(4, "big") + frame)
    await served.wait()
    assert await reader.read() == b""
    writer.close()


@pytest.mark.parametrize("what", WAITING)
async def test_an_embedded_broker_leaves_no_coroutine_unawaited(
    what: str, left_unawaited: list[str]
) -> None:
    async with AsyncBroker(topics=["orders"]) as broker:
        await lose_a_connection_before_its_request_begins(broker._running, what)
    assert not left_unawaited


@pytest.mark.parametrize("fault", ["lose_answer", "cut_answer", "stall", "do_twice"])
@pytest.mark.parametrize("what", WAITING)
async def test_a_fault_leaves_no_coroutine_unawaited(
    what: str, fault: str, left_unawaited: list[str]
) -> None:
    async with AsyncBroker(topics=["orders"]) as broker:
        getattr(broker.faults, fault)(None)
        await lose_a_connection_before_its_request_begins(broker._running, what)
        broker.faults.clear()  # a large request is lost before the fault applies to it
    assert not left_unawaited


@pytest.mark.parametrize("what", WAITING)
async def test_a_broker_leaves_no_coroutine_unawaited(
    what: str, left_unawaited: list[str], tmp_path: Path
) -> None:
    settings = load_settings(
        {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(tmp_path / "data")}
    )
    node = await Node.start(settings, Environment(filesystem=VolatileDisk()))
    try:
        await node.controller.create_topics([NewTopic(name="orders")])
        await lose_a_connection_before_its_request_begins(node, what)
    finally:
        await node.stop()
    assert not left_unawaited
