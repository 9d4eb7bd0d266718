"""The pages of DescribeTopicPartitions contain all partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pykbroker.apis import describe_topic_partitions
from pykbroker.apis.node import Call
from pykbroker.apis.peer import Peer
from pykbroker.broker import Broker
from pykbroker.environment import Environment
from pykbroker.settings import load_settings
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from pykbroker_storage.filesystem import VolatileDisk

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path


TOPICS = {"a": 3, "b": 1, "c": 4}
WHOLE = [(name, index) for name, count in TOPICS.items() for index in range(count)]


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    listening = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(tmp_path)}
    broker = await Broker.start(load_settings(listening), Environment(filesystem=VolatileDisk()))
    await broker.create_topics([(name, count, 1) for name, count in TOPICS.items()])
    yield broker
    await broker.stop()


def page(
    broker: Broker, limit: int, cursor: Cursor | None, names: Sequence[str] = ()
) -> DescribeTopicPartitionsResponse:
    peer = Peer(host="127.0.0.1", port=1, listener="PLAINTEXT", connection_id=1)
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=cursor,
    )
    response = describe_topic_partitions.handle(request, Call(broker.node, 0, "test", peer))
    assert isinstance(response, DescribeTopicPartitionsResponse)
    return response


def shown(response: DescribeTopicPartitionsResponse) -> list[tuple[str, int]]:
    return [
        (topic.name or "", it.partition_index)
        for topic in response.topics
        for it in topic.partitions
    ]


@pytest.mark.parametrize("names", [(), tuple(TOPICS)], ids=["all", "named"])
@pytest.mark.parametrize("limit", range(1, 10))
async def test_pages_of_any_size_contain_all_partitions(
    limit: int, names: tuple[str, ...], broker: Broker
) -> None:
    found, cursor = [], None
    for _ in WHOLE:
        response = page(broker, limit, cursor, names)
        assert len(shown(response)) <= limit
        found += shown(response)
        cursor = response.next_cursor
        if cursor is None:
            break
    assert cursor is None
    assert found == WHOLE


@pytest.mark.parametrize(
    ("cursor", "found"),
    [
        (("a", 2), WHOLE[2:]),
        (("aa", 2), WHOLE[3:]),
        (("c", 4), []),
        (("d", 0), []),
    ],
)
async def test_a_page_starts_at_the_cursor(
    cursor: tuple[str, int], found: list[tuple[str, int]], broker: Broker
) -> None:
    name, index = cursor
    response = page(broker, 100, Cursor(topic_name=name, partition_index=index))
    assert shown(response) == found
    assert response.next_cursor is None


@pytest.mark.parametrize(("name", "index"), [("a", -1), ("d", 0)])
async def test_a_cursor_outside_the_requested_topics_is_rejected(
    name: str, index: int, broker: Broker
) -> None:
    response = page(broker, 100, Cursor(topic_name=name, partition_index=index), ("a", "b"))
    assert [it.error_code for it in response.topics] == [ErrorCode.INVALID_REQUEST] * 2
