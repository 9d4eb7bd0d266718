"""Log lines of a full disk: the first failure and the first success."""

import logging
from pathlib import Path

import pytest

from pykbroker.clock import SystemClock
from pykbroker.generation import Generation
from pykbroker.metadata.image import ClusterImage, PartitionImage, TopicImage
from pykbroker.partitions.partition_registry import Partitions
from pykbroker.settings import load_settings
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.records.batch import RecordBatch
from pykbroker_storage.log import AppendResult
from tests.partitions.local_partitions import LocalPartitions
from tests.storage.batches import NOW, batch_bytes
from tests.storage.disks import SmallDisk

PLENTY = 1 << 20


def test_the_first_failed_append_and_the_first_successful_one_are_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = SmallDisk(PLENTY)
    partition = LocalPartitions(tmp_path, disk=disk).add("a")

    def write() -> AppendResult | Refusal:
        return partition.leader.append_batch(RecordBatch.parse(batch_bytes([b"x"])), NOW)

    with caplog.at_level(logging.INFO, "pykbroker.partitions"):
        for _ in range(2):
            disk.room_bytes = 0
            refusals = [write() for _ in range(3)]
            assert [isinstance(it, Refusal) and it.code for it in refusals] == [
                ErrorCode.KAFKA_STORAGE_ERROR
            ] * 3
            disk.room_bytes = PLENTY
            assert isinstance(write(), AppendResult)
    begin = "a-0: append failed (No space left on device); producers get KAFKA_STORAGE_ERROR "
    assert (
        caplog.messages
        == [
            f"{begin}and retry; no restart needed",
            "a-0: appends succeed again after 0 s",
        ]
        * 2
    )


def test_a_log_that_cannot_be_opened_is_logged_once_and_once_opened(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = SmallDisk(PLENTY)
    partitions = Partitions(
        node_id=1,
        directory=LocalPartitions(tmp_path, disk=disk).directory,
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
        partitions.apply_metadata(ClusterImage(cluster_id="c", controller_id=1), [topic])
        partitions.try_again()
        partitions.try_again()
        assert partitions.get("a", 0) is None
        disk.room_bytes = PLENTY
        partitions.try_again()
    assert partitions.get("a", 0) is not None
    waits, has = caplog.messages
    assert waits.startswith("a-0: log cannot be opened")
    assert has == "a-0: log opened; the partition is served"
