"""Large requests are served in slices, and a request holds a bounded number of elements."""

from __future__ import annotations

import asyncio
import gc
import importlib
import sys
from collections import defaultdict
from contextlib import asynccontextmanager, contextmanager, suppress
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pytest

from pykbroker import Broker
from pykbroker.apis import APIS
from pykbroker.broker import Broker as Node
from pykbroker.controller_access import NewPartitions, NewTopic
from pykbroker.environment import Environment
from pykbroker.settings import load_settings
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.messages.find_coordinator import FindCoordinatorRequest
from pykbroker_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from pykbroker_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pykbroker_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from pykbroker_protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from pykbroker_storage.filesystem import VolatileDisk
from tests.apis.request_builders import batch
from tests.apis.wire import Closed, Wire

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence
    from pathlib import Path
    from types import FrameType

    from pykbroker.apis import Api
    from pykbroker_protocol.message import Field, Message

pytestmark = pytest.mark.slow

ELEMENTS_MAX = 6_000
CALLS_MAX = 30_000
"""Maximum calls and returns in one loop iteration: up to sixty for each of 512 elements."""
CALLERS_SHOWN = 12
IMPORT = ("<frozen importlib._bootstrap>", "_find_and_load")
"""File and function of all imports of modules that are not loaded."""


def metadata(count: int, *, creates: bool = False) -> MetadataRequest:
    return MetadataRequest(
        topics=[MetadataRequestTopic(name=f"topic-{it}") for it in range(count)],
        allow_auto_topic_creation=creates,
    )


def test_a_request_with_too_many_elements_closes_its_connection_and_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with Broker(config={"socket.request.max.elements": 1000}) as broker:
        port = int(broker.bootstrap.rpartition(":")[2])
        with Wire(port) as wire:
            assert len(wire.ask(metadata(1000), 12).topics) == 1000
            with pytest.raises(Closed):
                wire.ask(metadata(1001), 12)
    line = "its Metadata request has more than 1000 elements (socket.request.max.elements)"
    assert line in caplog.text


def test_a_request_after_a_large_one_is_answered_after_it() -> None:
    with Broker() as broker, Wire(int(broker.bootstrap.rpartition(":")[2])) as wire:
        for count in (5000, 1, 2000, 2):
            wire.send(metadata(count), 12)
        for count in (5000, 1, 2000, 2):
            names = [it.name for it in wire.receive(MetadataRequest, 12).topics]
            assert names == [it.name for it in metadata(count).topics or ()]


class Busy:
    """Counts calls and returns of functions in each iteration of the event loop.

    Not counted: imports, because a periodic task can import a module during any request, and
    garbage collection, which depends on the objects of earlier tests.
    """

    def __init__(self) -> None:
        self._calls = 0
        self._callers: defaultdict[tuple[str, str], int] = defaultdict(int)
        self._open_imports = 0
        self.most = 0
        self._most_callers = self._callers

    @contextmanager
    def counting(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()

        def count(frame: FrameType, event: str, _: object) -> None:
            code = frame.f_code
            place = code.co_filename, code.co_name
            if place == IMPORT:
                self._open_imports += (event == "call") - (event == "return")
            elif not self._open_imports:
                self._calls += 1
                self._callers[place] += 1

        handle: asyncio.Handle

        def next_iteration() -> None:
            nonlocal handle
            if self._calls > self.most:
                self.most, self._most_callers = self._calls, self._callers
            self._calls, self._callers = 0, defaultdict(int)
            handle = loop.call_soon(next_iteration)

        handle = loop.call_soon(next_iteration)
        before, collects = sys.getprofile(), gc.isenabled()
        gc.disable()
        sys.setprofile(count)
        try:
            yield
        finally:
            sys.setprofile(before)
            handle.cancel()
            if collects:
                gc.enable()

    def __str__(self) -> str:
        """Returns the functions with the most calls in the iteration with the most calls."""
        callers = sorted(self._most_callers.items(), key=itemgetter(1), reverse=True)
        lines = [f"{count:7} {name} ({path})" for (path, name), count in callers[:CALLERS_SHOWN]]
        return "\n".join([f"{self.most} calls and returns in one iteration:", *lines])


@asynccontextmanager
async def node_in(directory: Path) -> AsyncIterator[Node]:
    settings = load_settings(
        {
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": str(directory),
            "socket.request.max.elements": str(ELEMENTS_MAX),
        }
    )
    node = await Node.start(settings, Environment(filesystem=VolatileDisk()))
    try:
        yield node
    finally:
        await node.stop()


PARTITIONS = 100
"""Partitions of each of the two topics."""


def paths_of(message: type[Message], version: int) -> Iterator[tuple[str, ...]]:
    """Yields the paths of the arrays of a request."""
    for field in message.fields:
        if version not in field.versions:
            continue
        if field.is_array:
            yield (field.name,)
        if field.struct is not None:
            for path in paths_of(field.struct, version):
                yield (field.name, *path)


def large(
    message: type[Message],
    version: int,
    path: Sequence[str],
    number: int = 0,
    elements: int = ELEMENTS_MAX // 2,
) -> Message:
    """Returns a request with many elements in the last array of the path and one in the others."""
    values = {
        field.name: value_of(field, version, path, number, elements)
        for field in message.fields
        if version in field.versions and version not in field.tagged
    }
    return message(**values)


def value_of(field: Field, version: int, path: Sequence[str], number: int, elements: int) -> Any:
    if field.is_array:
        is_last = path[:1] == (field.name,) and len(path) == 1
        below = path[1:] if path[:1] == (field.name,) else ()
        numbers = range(elements) if is_last else range(1)
        if field.struct is None:
            return [simple(field.name, field.kind, it) for it in numbers]
        return [large(field.struct, version, below, it, elements) for it in numbers]
    if field.struct is not None:
        below = path[1:] if path[:1] == (field.name,) else ()
        return (
            None if version in field.nullable else large(field.struct, version, below, 0, elements)
        )
    return (
        field.default if field.default not in ("", ...) else simple(field.name, field.kind, number)
    )


def simple(name: str, kind: Any, number: int) -> Any:
    if kind.name == "string":
        return f"{name}-{number}" if number else "topic-0"
    if kind.name in ("bytes", "records"):
        return b""
    return (number % PARTITIONS) if "partition" in name else kind.zero


CASES = [
    pytest.param(api, path, id=f"{api.name}: {'.'.join(path)}")
    for api in APIS.values()
    for path in paths_of(api.request_type, api.served.last)
]


@pytest.mark.parametrize(("api", "path"), CASES)
async def test_no_request_blocks_the_event_loop_longer_than_a_slice(
    api: Api, path: tuple[str, ...], tmp_path: Path
) -> None:
    version = api.served.last
    query = api.request_type, version, path
    async with node_in(tmp_path) as node:
        for number in range(2):
            topic = NewTopic(name=f"topic-{number}", partitions=PARTITIONS)
            await node.controller.create_topics([topic])
        # Imports and compilation by the first large request are not counted.
        await asyncio.to_thread(ask, node.bound_port, large(*query, elements=1000), version)
        request = large(*query)
        busy = Busy()
        with busy.counting():
            await asyncio.to_thread(ask, node.bound_port, request, version)
        assert busy.most < CALLS_MAX, str(busy)


def ask(port: int, request: Message, version: int) -> None:
    """Sends a request and ignores the response."""
    with Wire(port) as wire, suppress(Closed):
        wire.ask(request, version)


async def test_calls_during_imports_are_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "imported_by_a_periodic_task.py").write_text("for it in range(1000): len('')")
    monkeypatch.syspath_prepend(tmp_path)
    busy = Busy()
    with busy.counting():
        importlib.import_module("imported_by_a_periodic_task")
        for _ in range(100):
            len("")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert 200 <= busy.most < 1000, str(busy)


async def test_thousands_of_partitions_are_created_and_deleted_in_slices(tmp_path: Path) -> None:
    async with node_in(tmp_path) as node:
        commands = (
            lambda: node.controller.create_topics([NewTopic(name="wide", partitions=600)]),
            lambda: node.controller.create_topics([NewTopic(name=f"t{it}") for it in range(300)]),
            lambda: node.controller.create_partitions([NewPartitions(name="t0", count=600)]),
            lambda: node.controller.delete_topics(["wide", *[f"t{it}" for it in range(300)]]),
        )
        for command in commands:
            busy = Busy()
            with busy.counting():
                outcomes = await command()
            assert not any(isinstance(it, Refusal) for it in outcomes)
            assert busy.most < CALLS_MAX, str(busy)
        assert len(node.partitions) == 0


async def test_a_stop_during_partition_creation_loses_no_partition(tmp_path: Path) -> None:
    async with node_in(tmp_path) as node:
        creating = asyncio.create_task(
            node.controller.create_topics([NewTopic(name="wide", partitions=500)])
        )
        while not len(node.partitions):  # noqa: ASYNC110 - the creation knows no events
            await asyncio.sleep(0)
        assert len(node.partitions) < 500
    await creating
    async with node_in(tmp_path) as node:
        assert {it.index for it in node.partitions} == set(range(500))
        assert {it.index for it in node.partitions if it.log.log_end_offset == 0} == set(range(500))


WIDE = 1_500


def test_a_large_commit_has_one_response_and_commits_all_offsets() -> None:
    indexes = list(range(WIDE))
    commit = OffsetCommitRequest(
        group_id="g",
        member_id="",
        topics=[
            OffsetCommitRequestTopic(
                name="wide",
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=it, committed_offset=7 * it, committed_metadata=""
                    )
                    for it in indexes
                ],
            )
        ],
    )
    with (
        Broker(topics={"wide": WIDE}) as broker,
        Wire(int(broker.bootstrap.rpartition(":")[2])) as wire,
    ):
        while wire.ask(FindCoordinatorRequest(key="g"), 2).error_code:  # it is being created
            pass
        loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        while wire.ask(commit, 8).topics[0].partitions[0].error_code == loading:
            pass
        (committed,) = wire.ask(commit, 8).topics
        assert [(it.partition_index, it.error_code) for it in committed.partitions] == [
            (it, 0) for it in indexes
        ]
        request = [OffsetFetchRequestTopics(name="wide", partition_indexes=indexes)]
        for topics in (request, None):
            group = OffsetFetchRequestGroup(group_id="g", topics=topics)
            (found,) = wire.ask(OffsetFetchRequest(groups=[group]), 9).groups
            assert fetched_offsets(found) == {it: 7 * it for it in indexes}
        old = OffsetFetchRequest(
            group_id="g", topics=[OffsetFetchRequestTopic(name="wide", partition_indexes=indexes)]
        )
        assert fetched_offsets(wire.ask(old, 7)) == {it: 7 * it for it in indexes}


def fetched_offsets(found: Any) -> dict[int, int]:
    (topic,) = found.topics
    return {it.partition_index: it.committed_offset for it in topic.partitions}


def test_a_large_produce_has_one_response_and_appends_in_order() -> None:
    request = ProduceRequest(
        acks=1,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(
                name="wide",
                partition_data=[
                    PartitionProduceData(index=it, records=batch(b"%d" % it)) for it in range(WIDE)
                ],
            )
        ],
    )
    with (
        Broker(topics={"wide": WIDE}) as broker,
        Wire(int(broker.bootstrap.rpartition(":")[2])) as wire,
    ):
        for expected in (0, 1):
            wire.send(request, 9)
            wire.send(request.replace(topic_data=request.topic_data[:0]), 9)
            (topic,) = wire.receive(ProduceRequest, 9).responses
            assert [(it.index, it.base_offset) for it in topic.partition_responses] == [
                (it, expected) for it in range(WIDE)
            ]
            assert not wire.receive(ProduceRequest, 9).responses
