"""What an operator hears of a disk that is full: when it begins and when it is over."""

import logging
from pathlib import Path

import pytest

from pykbroker.clock import SystemClock
from pykbroker.generation import Generation
from pykbroker.metadata.image import ClusterImage, PartitionImage, TopicImage
from pykbroker.partitions.board import Partitions
from pykbroker.settings import load_settings
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.records.batch import RecordBatch
from pykbroker_storage.log import AppendResult
from tests.partitions.boards import Board
from tests.storage.batches import NOW, batch_bytes
from tests.storage.disks import SmallDisk

PLENTY = 1 << 20


def test_appends_that_find_no_room_are_told_of_once_until_there_is_room(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = SmallDisk(PLENTY)
    partition = Board(tmp_path, disk=disk).add("a")

    def write() -> AppendResult | Refusal:
        return partition.append_batch(RecordBatch.parse(batch_bytes([b"x"])), NOW)

    with caplog.at_level(logging.INFO, "pykbroker.partitions"):
        for _ in range(2):
            disk.room_bytes = 0
            refusals = [write() for _ in range(3)]
            assert [isinstance(it, Refusal) and it.code for it in refusals] == [
                ErrorCode.KAFKA_STORAGE_ERROR
            ] * 3
            disk.room_bytes = PLENTY
            assert isinstance(write(), AppendResult)
    told = [message.partition(",")[0] for message in caplog.messages]
    assert told == ["a-0: cannot append", "a-0: can append again"] * 2


def test_a_partition_that_waits_for_its_log_is_told_of_once_until_it_has_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = SmallDisk(PLENTY)
    partitions = Partitions(
        node_id=1,
        directory=Board(tmp_path, disk=disk).directory,
        settings=load_settings(),
        clock=SystemClock(),
        generation=Generation(),
    )
    image = PartitionImage(
        index=0,
        replicas=(1,),
        in_sync=(1,),
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
        directories=(),
    )
    disk.room_bytes = 0
    with caplog.at_level(logging.INFO, "pykbroker.partitions"):
        topic = TopicImage(name="a", id=bytes(16), partitions=(image,))
        partitions.follow(ClusterImage(cluster_id="c", controller_id=1), [topic])
        partitions.try_again()
        partitions.try_again()
        assert partitions.get("a", 0) is None
        disk.room_bytes = PLENTY
        partitions.try_again()
    assert partitions.get("a", 0) is not None
    waits, has = caplog.messages
    assert waits.startswith("a-0 waits for its log")
    assert has == "a-0 has its log"
