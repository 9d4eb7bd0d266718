"""A flush required by `flush.messages` precedes the response and the visibility of records."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import threading
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from pykbroker.apis.answers import ProtocolViolation
from pykbroker.controller_access import ConfigurationChange, NewTopic
from pykbroker.internal_topics import CONSUMER_OFFSETS
from pykbroker.metadata.image import TOPIC_RESOURCE
from pykbroker.partitions.upkeep import Upkeep
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pykbroker_protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from pykbroker_storage.filesystem import FileSystem
from tests.apis.one_broker import TIMEOUT_SECONDS, Client, answer_of, broker_on
from tests.apis.request_builders import batch, fetched, from_partition, produced, to_partition

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from pykbroker.broker import Broker
    from pykbroker.partitions.partition import Partition

ALL, LEADER, NONE = -1, 1, 0
EACH_WRITE = {"flush.messages": "1"}
SET, DELETE = 0, 1
STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR


class GatedDisk(FileSystem):
    """While the gate is closed, fsync of some partitions blocks."""

    def __init__(self) -> None:
        self.gated = {"slow-0"}
        self.flushes = 0
        self.fails = False
        self.gate = threading.Event()
        self._arrived = threading.Semaphore(0)
        self._paths: dict[int, str] = {}

        def fdatasync(descriptor: int) -> None:
            *_, folder, name = self._paths[descriptor].split("/")
            if folder in self.gated and name.endswith(".log"):
                self.flushes += 1
                self._arrived.release()
                assert self.gate.wait(TIMEOUT_SECONDS)
                if self.fails:
                    raise OSError(errno.EIO, os.strerror(errno.EIO))

        self.fdatasync = fdatasync

    def open(self, path: str) -> int:
        return self._known(super().open(path), path)

    def open_existing(self, path: str) -> int:
        return self._known(super().open_existing(path), path)

    def _known(self, descriptor: int, path: str) -> int:
        self._paths[descriptor] = path
        return descriptor

    async def until_flushing(self) -> None:
        assert await asyncio.to_thread(self._arrived.acquire, timeout=TIMEOUT_SECONDS)


class Scene:
    """A broker with the topic 'slow', whose flushes complete when the test opens the gate."""

    def __init__(self, broker: Broker, disk: GatedDisk) -> None:
        self.broker, self.disk = broker, disk
        self.client = Client(broker)

    @property
    def partition(self) -> Partition:
        partition = self.broker.partitions.get("slow", 0)
        assert partition is not None
        return partition

    def produce(self, *, acks: int = ALL, topic: str = "slow", **of_batch: Any) -> Any:
        records = batch(now_ms=self.broker.clock.now_ms(), **of_batch)
        return self.client.ask(produced(to_partition(records, topic=topic), acks=acks), 8)

    def visible(self) -> int:
        """Returns the number of bytes that a consumer gets."""
        answer = self.client.ask(fetched(from_partition(topic="slow")), 11)
        return len(answer.responses[0].partitions[0].records or b"")

    async def configure(self, topic: str = "slow", **values: str | None) -> None:
        operations = [
            (name.replace("_", "."), SET if value else DELETE, value)
            for name, value in values.items()
        ]
        change = ConfigurationChange(
            resource_type=TOPIC_RESOURCE, name=topic, operations=operations
        )
        assert await self.broker.controller.alter_configurations([change]) == [None]


@asynccontextmanager
async def scene(
    directory: Path, configuration: dict[str, str] = EACH_WRITE
) -> AsyncIterator[Scene]:
    disk = GatedDisk()
    async with broker_on(disk, directory) as broker:
        await broker.controller.create_topics(
            [
                NewTopic(name="slow", partitions=1, configuration=configuration),
                NewTopic(name="quick", partitions=1),
            ]
        )
        try:
            yield Scene(broker, disk)
        finally:
            disk.fails = False
            disk.gate.set()


def outcome(answer: Any) -> tuple[int, int]:
    """Returns error code and base offset of the only partition."""
    (row,) = answer.responses[0].partition_responses
    return row.error_code, row.base_offset


@pytest.mark.parametrize("acks", [NONE, LEADER, ALL])
async def test_an_append_is_acknowledged_and_visible_after_its_flush(
    tmp_path: Path, acks: int
) -> None:
    async with scene(tmp_path) as on:
        waiting = on.produce(acks=acks)
        await on.disk.until_flushing()
        assert (waiting.done(), on.partition.high_watermark, on.visible()) == (False, 0, 0)
        assert outcome(on.produce(topic="quick")) == (0, 0), "another partition does not wait"
        on.disk.gate.set()
        answer = await waiting
        assert answer is None if acks == NONE else outcome(answer) == (0, 0)
        assert on.partition.high_watermark == 1
        assert on.visible()


async def test_appends_that_arrive_during_a_flush_share_the_next_one(tmp_path: Path) -> None:
    async with scene(tmp_path) as on:
        first = on.produce()
        await on.disk.until_flushing()
        others = [on.produce(acks=acks) for acks in (LEADER, ALL) * 5]
        assert on.disk.flushes == 1
        on.disk.gate.set()
        assert [outcome(await it) for it in (first, *others)] == [(0, it) for it in range(11)]
        assert on.disk.flushes == 2


async def test_only_appends_that_reach_flush_messages_wait_for_a_flush(tmp_path: Path) -> None:
    async with scene(tmp_path, {"flush.messages": "3"}) as on:
        assert [outcome(on.produce()) for _ in range(2)] == [(0, 0), (0, 1)]
        third = on.produce()
        await on.disk.until_flushing()
        fourth = on.produce()
        assert (third.done(), fourth.done(), on.partition.high_watermark) == (False, False, 2)
        on.disk.gate.set()
        assert [outcome(await it) for it in (third, fourth)] == [(0, 2), (0, 3)]
        assert (on.partition.log.recovery_point, on.partition.high_watermark) == (3, 4)
        assert on.disk.flushes == 1


@pytest.mark.parametrize("acks", [LEADER, ALL])
async def test_a_duplicate_waits_for_the_flush_of_the_batch_that_it_repeats(
    tmp_path: Path, acks: int
) -> None:
    async with scene(tmp_path) as on:
        same: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
        first = on.produce(acks=acks, **same)
        await on.disk.until_flushing()
        again = on.produce(acks=acks, **same)
        assert not again.done()
        on.disk.gate.set()
        assert outcome(await first) == outcome(await again) == (0, 0)
        assert on.partition.log.log_end_offset == 1


async def test_a_failed_flush_fails_waiting_requests_and_hides_their_records(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "pykbroker.partitions")
    async with scene(tmp_path) as on:
        on.disk.fails = True
        same: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
        waiting = [on.produce(acks=LEADER, **same), on.produce(), on.produce(acks=NONE)]
        on.disk.gate.set()
        assert [outcome(await it)[0] for it in waiting[:2]] == [STORAGE_ERROR] * 2
        with pytest.raises(ProtocolViolation):
            await waiting[2]
        assert (on.partition.high_watermark, on.visible()) == (0, 0)
        assert outcome(on.produce())[0] == STORAGE_ERROR, "the log takes no more appends"
        assert outcome(await on.produce(**same))[0] == STORAGE_ERROR, "nor is it there by now"
        assert on.partition.log.log_end_offset == 3

        upkeep = Upkeep(on.broker.partitions)
        await upkeep.flush()
        assert on.partition.high_watermark == 0
        on.disk.fails = False
        await upkeep.flush()
        assert on.partition.high_watermark == 3
        assert outcome(on.produce(**same)) == (0, 0), "the batch is there, once"
        assert outcome(await answer_of(on.produce())) == (0, 3)
    failed, succeeded = [it.getMessage() for it in caplog.records if "slow" in it.getMessage()]
    assert failed.startswith("slow-0: flush failed ([Errno 5] Input/output error")
    assert succeeded == "slow-0: flush succeeds again; appends are accepted"


async def test_repeated_appends_wait_for_flushes_after_flush_messages_is_set(
    tmp_path: Path,
) -> None:
    async with scene(tmp_path, {}) as on:
        assert [outcome(on.produce(acks=LEADER)) for _ in range(3)] == [
            (0, 0),
            (0, 1),
            (0, 2),
        ]
        await on.configure(flush_messages="1")
        waiting = on.produce(acks=LEADER)
        await on.disk.until_flushing()
        assert (waiting.done(), on.partition.high_watermark) == (False, 3)
        on.disk.gate.set()
        assert outcome(await waiting) == (0, 3)
        await on.configure(flush_messages=None)
        assert outcome(on.produce(acks=LEADER)) == (0, 4)


async def test_requests_that_wait_for_a_flush_are_answered_when_the_topic_is_deleted(
    tmp_path: Path,
) -> None:
    async with scene(tmp_path) as on:
        waiting = on.produce()
        await on.disk.until_flushing()
        await on.broker.controller.delete_topics(["slow"])
        on.disk.gate.set()
        assert outcome(await waiting)[0] == STORAGE_ERROR


async def test_an_offset_commit_is_answered_after_its_flush(tmp_path: Path) -> None:
    async with scene(tmp_path, {}) as on:
        topic = NewTopic(name=CONSUMER_OFFSETS, partitions=1)
        await on.broker.controller.create_topics([topic])
        on.disk.gated = {f"{CONSUMER_OFFSETS}-0"}
        assert [code_of(on.client.ask(commit(it), 8)) for it in range(3)] == [ErrorCode.NONE] * 3
        await on.configure(CONSUMER_OFFSETS, flush_messages="1")
        waiting = on.client.ask(commit(3), 8)
        await on.disk.until_flushing()
        assert not waiting.done()
        on.disk.gate.set()
        assert code_of(await waiting) == ErrorCode.NONE
        on.disk.fails = True
        assert code_of(await on.client.ask(commit(4), 8)) == ErrorCode.NOT_COORDINATOR


def commit(offset: int, topic: str = "quick") -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=""
    )
    row = OffsetCommitRequestTopic(name=topic, partitions=[partition])
    return OffsetCommitRequest(group_id="readers", member_id="", topics=[row])


def code_of(answer: Any) -> int:
    (row,) = answer.topics[0].partitions
    return int(row.error_code)


@pytest.mark.parametrize("fails", [False, True])
async def test_a_marker_is_acknowledged_after_its_flush(tmp_path: Path, *, fails: bool) -> None:
    async with scene(tmp_path) as on:
        on.disk.fails = fails
        marker = WritableTxnMarker(
            producer_id=7,
            producer_epoch=0,
            transaction_result=True,
            coordinator_epoch=0,
            topics=[WritableTxnMarkerTopic(name="slow", partition_indexes=[0])],
        )
        waiting = on.client.ask(WriteTxnMarkersRequest(markers=[marker]), 1)
        await on.disk.until_flushing()
        assert not waiting.done()
        on.disk.gate.set()
        (row,) = (await waiting).markers[0].topics[0].partitions
        assert row.error_code == (STORAGE_ERROR if fails else ErrorCode.NONE)


async def test_after_a_crash_records_are_flushed_before_the_broker_serves(tmp_path: Path) -> None:
    async with scene(tmp_path, {}) as on:
        on.produce()
        await on.configure(flush_messages="1")
        on.broker.directory.close = lambda *_, **__: on.broker.directory.abandon()  # type: ignore[method-assign]  # a crash
    disk = GatedDisk()

    async def open_the_gate() -> None:
        await disk.until_flushing()
        disk.gate.set()

    opening = asyncio.create_task(open_the_gate())
    async with broker_on(disk, tmp_path) as broker:
        assert opening.done()
        on = Scene(broker, disk)
        assert on.partition.high_watermark == 1
        assert on.visible()
