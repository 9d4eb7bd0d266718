"""The event loop of a serving broker does not block on flushes of files or directories."""

from __future__ import annotations

import os
import threading
import traceback
from typing import TYPE_CHECKING

from pykbroker.controller_access import NewPartitions, NewTopic
from pykbroker.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from pykbroker.partitions.upkeep import Upkeep
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from pykbroker_storage.filesystem import FileSystem
from tests.apis.one_broker import Client, answer_of, broker_on
from tests.apis.request_builders import batch, produced, to_partition
from tests.apis.test_flush_before_response import code_of, commit, outcome

if TYPE_CHECKING:
    from pathlib import Path

    from pykbroker.broker import Broker

HALF_A_SEGMENT = bytes(500_000)


class WatchedDisk(FileSystem):
    """Records the callers of flushes on the thread that created it."""

    def __init__(self) -> None:
        self.serves = False
        self.flushes_elsewhere = 0
        self.flushes_here: list[str] = []
        self._own_thread = threading.get_ident()

        def fdatasync(descriptor: int) -> None:
            self._note()
            os.fdatasync(descriptor)

        self.fdatasync = fdatasync

    def sync_directory(self, path: str) -> None:
        self._note()
        super().sync_directory(path)

    def sync_all(self) -> None:
        self._note()

    def _note(self) -> None:
        if not self.serves:
            return
        if threading.get_ident() == self._own_thread:
            self.flushes_here.append("".join(traceback.format_stack(limit=12)))
        else:
            self.flushes_elsewhere += 1


async def write(client: Client, broker: Broker, topic: str) -> None:
    """Returns batches of an idempotent producer for three segments."""
    for number in range(6):
        records = batch(
            HALF_A_SEGMENT,
            now_ms=broker.clock.now_ms(),
            producer_id=7,
            producer_epoch=0,
            base_sequence=number,
        )
        answer = await answer_of(client.ask(produced(to_partition(records, topic=topic)), 8))
        assert outcome(answer)[0] == ErrorCode.NONE


async def test_no_flush_runs_on_the_event_loop_of_a_serving_broker(tmp_path: Path) -> None:
    disk = WatchedDisk()
    async with broker_on(disk, tmp_path, log_flush_interval_messages=1) as broker:
        disk.serves = True
        client, controller, upkeep = Client(broker), broker.controller, Upkeep(broker.partitions)
        small = {"segment.bytes": str(1 << 20), "retention.bytes": str(1 << 20)}
        topic = NewTopic(name="trucks", partitions=2, configuration=small)
        internal = [NewTopic(name=it, partitions=1) for it in (CONSUMER_OFFSETS, TRANSACTION_STATE)]
        await controller.create_topics([topic, *internal])
        for _ in range(2):  # the second time, the topic is deleted and created again
            await write(client, broker, "trucks")
            assert code_of(await answer_of(client.ask(commit(1, "trucks"), 8))) == ErrorCode.NONE
            await controller.create_partitions([NewPartitions(name="trucks", count=3)])
            await upkeep.flush()
            await upkeep.checkpoint()
            await upkeep.enforce_retention()
            await answer_of(client.ask(delete_records("trucks", 5), 2))
            await upkeep.checkpoint()
            await upkeep.expire_producers()
            await upkeep.sweep()
            await controller.delete_topics(["trucks"])
            await controller.create_topics([topic])
        disk.serves = False
    assert disk.flushes_elsewhere > 20
    assert not disk.flushes_here, disk.flushes_here[0]


def delete_records(topic: str, before: int) -> DeleteRecordsRequest:
    partition = DeleteRecordsPartition(partition_index=0, offset=before)
    return DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=topic, partitions=[partition])], timeout_ms=1000
    )
