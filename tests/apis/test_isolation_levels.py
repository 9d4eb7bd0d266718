"""Records and offsets that readers get during a transaction, by isolation level."""

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
from pykbroker_protocol.records.batch import RecordBatch
from pykbroker_protocol.records.builder import BatchBuilder
from pykbroker_storage.filesystem import VolatileDisk

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

UNCOMMITTED, COMMITTED = 0, 1
CONSUMER, DEBUGGING, A_BROKER = -1, -2, 5
LATEST = -1
FETCHES = [  # reader, isolation level, whether the open transaction is visible
    (CONSUMER, UNCOMMITTED, True),
    (CONSUMER, COMMITTED, False),
    (DEBUGGING, UNCOMMITTED, True),
    (DEBUGGING, COMMITTED, False),
    (-3, COMMITTED, False),
]
OFFSET_REQUESTS = [
    (CONSUMER, UNCOMMITTED, True),
    (CONSUMER, COMMITTED, False),
    (DEBUGGING, UNCOMMITTED, True),
    (DEBUGGING, COMMITTED, True),
    (-3, COMMITTED, True),
    (A_BROKER, COMMITTED, True),
]


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    """Creates a partition with a committed record and a record of an open transaction."""
    listening = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(tmp_path)}
    broker = await Broker.start(load_settings(listening), Environment(filesystem=VolatileDisk()))
    await broker.create_topics([("asked", 1, 1)])
    partition = broker.partitions.get("asked", 0)
    assert partition is not None
    open_transaction: dict[str, Any] = {
        "producer_id": 1,
        "producer_epoch": 0,
        "base_sequence": 0,
        "is_transactional": True,
    }
    for fields in ({}, open_transaction):
        builder = BatchBuilder(**fields)
        builder.append(broker.clock.now_ms(), b"k", b"v")
        batch = RecordBatch.parse(memoryview(bytearray(builder.build())))
        partition.leader.write(batch, broker.clock.now_ms())
    assert (partition.last_stable_offset, partition.high_watermark) == (1, 2)
    yield broker
    await broker.stop()


@pytest.mark.parametrize(("replica_id", "isolation", "is_seen"), FETCHES)
@pytest.mark.parametrize("version", [4, 12, 14, 15, 18])
async def test_fetch(
    version: int,
    replica_id: int,
    isolation: int,
    is_seen: bool,  # noqa: FBT001  # a column of the table
    broker: Broker,
) -> None:
    request = question(broker, "FETCH", version).replace(isolation_level=isolation)
    if version < 15:
        request = request.replace(replica_id=replica_id)
    else:
        state = request.replica_state.replace(replica_id=replica_id)
        request = request.replace(replica_state=state)
    response = await answer(broker, "FETCH", version, request)
    ((partition,),) = [it.partitions for it in response.responses]
    records = bytes(partition.records or b"")
    assert len(list(batches(records))) == (2 if is_seen else 1)


@pytest.mark.parametrize(("replica_id", "isolation", "is_seen"), OFFSET_REQUESTS)
async def test_list_offsets(
    replica_id: int,
    isolation: int,
    is_seen: bool,  # noqa: FBT001  # a column of the table
    broker: Broker,
) -> None:
    request = question(broker, "LIST_OFFSETS", 7)
    request = request.replace(replica_id=replica_id, isolation_level=isolation)
    response = await answer(broker, "LIST_OFFSETS", 7, request)
    ((partition,),) = [it.partitions for it in response.topics]
    assert partition.offset == (2 if is_seen else 1)


def question(broker: Broker, name: str, version: int) -> Any:
    """Returns a valid request; ListOffsets requests the latest offset."""
    topic = broker.image.topics["asked"]
    world = RequestTargets(topic="asked", topic_id=topic.id, group="", new_name="")
    return RequestBuilder(version, world, creates=False).message(APIS[ApiKey[name]].request_type)


async def answer(broker: Broker, name: str, version: int, request: Any) -> Any:
    peer = Peer(host="127.0.0.1", port=1, listener="PLAINTEXT", connection_id=1)
    handler: Any = import_module(f"pykbroker.apis.{APIS[ApiKey[name]].name}")
    response = handler.handle(request, Call(broker.node, version, "test", peer))
    return await response if inspect.isawaitable(response) else response


def batches(records: bytes) -> list[RecordBatch]:
    found: list[RecordBatch] = []
    while records:
        found.append(RecordBatch.parse(memoryview(bytearray(records))))
        records = records[found[-1].size_bytes :]
    return found
