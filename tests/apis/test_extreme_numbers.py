"""A number of a request may be any that its type has: the broker answers each of them.

Times are added to the clock, offsets to one another: the sum may be beyond what an answer or a
record can hold.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from typing import TYPE_CHECKING, Any

import pytest

from compat.probe.probe_requests import SKIPPED, RequestBuilder, RequestTargets
from pykbroker.apis import APIS
from pykbroker.apis.answers import Waiting
from pykbroker.apis.dispatch import Dispatcher
from pykbroker.apis.peer import Peer
from pykbroker.broker import Broker
from pykbroker.environment import Environment
from pykbroker.settings import load_settings
from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.frame import write_request
from pykbroker_protocol.records.batch import CHECKED_FROM, CRC_AT
from pykbroker_protocol.records.builder import BatchBuilder
from pykbroker_protocol.records.crc32c import checksum
from pykbroker_storage.filesystem import VolatileDisk

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from pykbroker_protocol.message import Kind, Message

pytestmark = pytest.mark.slow

ANSWERED_SECONDS_MAX = 2.0
"""Requests that would wait for weeks are cancelled after this time."""
NAMES = sorted(api.key.name for api in APIS.values() if api.key.name not in SKIPPED)


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    settings = load_settings(
        {
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": str(tmp_path),
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
        }
    )
    broker = await Broker.start(settings, Environment(filesystem=VolatileDisk()))
    await broker.create_topics(
        [("asked", 2, 1), ("__consumer_offsets", 1, 1), ("__transaction_state", 1, 1)]
    )
    yield broker
    await broker.stop()


@pytest.mark.parametrize("name", NAMES)
async def test_requests_with_extreme_numbers_get_a_response(
    name: str, broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    api = APIS[ApiKey[name]]
    dispatcher = Dispatcher(broker.node)
    topic = broker.image.topics["asked"]
    peer = Peer(host="127.0.0.1", port=1, listener="PLAINTEXT", connection_id=1)
    waiting: list[asyncio.Future[Any]] = []
    with caplog.at_level(logging.ERROR):
        for version in api.served:
            world = RequestTargets(topic="asked", topic_id=topic.id, group="asked", new_name="new")
            request = RequestBuilder(version, world, creates=name == "CREATE_TOPICS")
            for path, value in numbers(request, api.request_type):
                message = request.message(api.request_type, path, value)
                frame = memoryview(bytearray(b"".join(write_request(message, version, 1, "test"))))
                answer = dispatcher.serve(frame, peer)
                if isinstance(answer, Waiting):
                    waiting.append(asyncio.ensure_future(answer.awaitable))
        await all_answered(waiting)
    assert caplog.messages == []


def numbers(asked: RequestBuilder, message: type[Message]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yields a valid request, then requests with each numeric field at its bounds."""
    yield (), None
    for path in dict.fromkeys(path for path, _, _ in asked.variations(message)):
        field = field_of(message, path)
        if field.struct is None and is_number(field.kind):
            for value in bounds(field.kind):
                yield path, [value] if field.is_array else value


def field_of(message: type[Message], path: tuple[str, ...]) -> Any:
    (field,) = (it for it in message.fields if it.name == path[0])
    return field if len(path) == 1 else field_of(field.struct or message, path[1:])


def is_number(kind: Kind) -> bool:
    return bool(kind.letter) and kind.letter in "bBhHiIqQ"


def bounds(kind: Kind) -> list[int]:
    bits = 8 * struct.calcsize(kind.letter)
    if kind.letter.isupper():
        return [0, 2**bits - 1]
    return [-(2 ** (bits - 1)), 2 ** (bits - 1) - 1]


async def all_answered(waiting: list[asyncio.Future[Any]]) -> None:
    if waiting:
        done, late = await asyncio.wait(waiting, timeout=ANSWERED_SECONDS_MAX)
        for it in late:
            it.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        for it in done:
            it.result()


LATEST_MS, EARLIEST_MS = 2**63 - 1, -(2**63)


@pytest.mark.parametrize(
    ("base_ms", "later_by_ms"), [(LATEST_MS, 5), (EARLIEST_MS, -5), (LATEST_MS, LATEST_MS)]
)
@pytest.mark.parametrize("asked_ms", [-5, -4, -3, -2, -1, EARLIEST_MS, 0, LATEST_MS])
async def test_list_offsets_answers_timestamps_beyond_the_range_of_the_type(
    base_ms: int, later_by_ms: int, asked_ms: int, broker: Broker
) -> None:
    """The broker uses the other timestamp in the batch header without reading records."""
    batch = batch_of_times(base_ms, later_by_ms, claimed_ms=broker.clock.now_ms())
    path = ("topic_data", "partition_data", "records")
    assert await asked_with(broker, "PRODUCE", 9, path, batch)
    partition = broker.partitions.get("asked", 0)
    assert partition is not None
    assert partition.log.log_end_offset == 2
    path = ("topics", "partitions", "timestamp")
    for version in (7, 11):
        assert await asked_with(broker, "LIST_OFFSETS", version, path, asked_ms)


async def asked_with(
    broker: Broker, name: str, version: int, path: tuple[str, ...], value: Any
) -> Any:
    api, topic = APIS[ApiKey[name]], broker.image.topics["asked"]
    world = RequestTargets(topic="asked", topic_id=topic.id, group="asked", new_name="new")
    message = RequestBuilder(version, world, creates=False).message(api.request_type, path, value)
    frame = memoryview(bytearray(b"".join(write_request(message, version, 1, "test"))))
    peer = Peer(host="127.0.0.1", port=1, listener="PLAINTEXT", connection_id=1)
    answer = Dispatcher(broker.node).serve(frame, peer)
    return await answer.awaitable if isinstance(answer, Waiting) else answer


def batch_of_times(base_ms: int, later_by_ms: int, *, claimed_ms: int) -> bytes:
    """Returns two records in a batch whose header has another maximum timestamp."""
    builder = BatchBuilder()
    for timestamp in (0, later_by_ms):
        builder.append(timestamp, b"k", b"v")
    batch = bytearray(builder.build())
    struct.pack_into(">qq", batch, 27, base_ms, claimed_ms)
    struct.pack_into(">I", batch, CRC_AT, checksum(memoryview(batch)[CHECKED_FROM:]))
    return bytes(batch)
