"""Offsets of partitions that do not exist are rejected."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

from compat.probe.probe_requests import RequestBuilder, RequestTargets
from pykbroker.apis import APIS
from pykbroker.apis.node import Call
from pykbroker.apis.peer import Peer
from pykbroker.broker import Broker
from pykbroker.environment import Environment
from pykbroker.settings import load_settings
from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.errors import ErrorCode
from pykbroker_storage.filesystem import VolatileDisk

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

COUNT = 2


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    listening = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(tmp_path)}
    broker = await Broker.start(load_settings(listening), Environment(filesystem=VolatileDisk()))
    await broker.create_topics(
        [("asked", COUNT, 1), ("__consumer_offsets", 1, 1), ("__transaction_state", 1, 1)]
    )
    yield broker
    await broker.stop()


@pytest.mark.parametrize("index", [-1, 0, COUNT - 1, COUNT, COUNT + 1])
@pytest.mark.parametrize("name", ["OFFSET_COMMIT", "TXN_OFFSET_COMMIT", "OFFSET_DELETE"])
async def test_offsets_of_unknown_partitions_are_rejected(
    name: str, index: int, broker: Broker
) -> None:
    exists = 0 <= index < COUNT
    for version in APIS[ApiKey[name]].served:
        if name == "OFFSET_DELETE":
            await asked(broker, "OFFSET_COMMIT", 2, 0)  # otherwise the group does not exist
        code = await asked(broker, name, version, index)
        assert (code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) == exists, version


async def asked(broker: Broker, name: str, version: int, index: int) -> ErrorCode:
    api, topic = APIS[ApiKey[name]], broker.image.topics["asked"]
    world = RequestTargets(topic="asked", topic_id=topic.id, group="group", new_name="")
    path = ("topics", "partitions", "partition_index")
    request = RequestBuilder(version, world, creates=False).message(api.request_type, path, index)
    peer = Peer(host="127.0.0.1", port=1, listener="PLAINTEXT", connection_id=1)
    handler: Any = import_module(f"pykbroker.apis.{api.name}")
    answer = handler.handle(request, Call(broker.node, version, "test", peer))
    response = await answer if inspect.isawaitable(answer) else answer
    ((partition,),) = [it.partitions for it in response.topics]
    return ErrorCode(partition.error_code)  # type: ignore[call-arg]  # looks a member up
