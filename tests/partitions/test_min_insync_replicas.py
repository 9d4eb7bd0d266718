"""Appends with acks=all and fewer in-sync replicas than `min.insync.replicas`."""

from pathlib import Path

import pytest

from pykbroker.partitions.leadership import Leadership
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_storage.log import AppendResult
from tests.partitions.transactions import open_partition
from tests.storage.batches import NOW, batch_bytes

ALL, LEADER_ALONE, NO_ACKS = -1, 1, 0
WRITTEN = AppendResult(0, 0, -1, 0)
NOT_ENOUGH = Refusal(ErrorCode.NOT_ENOUGH_REPLICAS)


def leadership(replicas: tuple[int, ...], in_sync: tuple[int, ...]) -> Leadership:
    return Leadership(
        leader=1, leader_epoch=0, partition_epoch=0, replicas=replicas, in_sync=in_sync
    )


@pytest.mark.parametrize(
    ("asked", "replicas", "in_sync", "acks", "answer", "high_watermark"),
    [
        (1, (1,), (1,), ALL, WRITTEN, 1),
        (2, (1,), (1,), ALL, NOT_ENOUGH, 0),
        (2, (1,), (1,), LEADER_ALONE, WRITTEN, 1),
        (2, (1,), (1,), NO_ACKS, WRITTEN, 1),
        (3, (1,), (1,), LEADER_ALONE, WRITTEN, 1),
        (2, (1, 2), (1,), ALL, NOT_ENOUGH, 0),
        (2, (1, 2), (1,), LEADER_ALONE, WRITTEN, 0),
        (3, (1, 2), (1, 2), ALL, NOT_ENOUGH, 0),
    ],
    ids=[
        "one of one",
        "two of one",
        "two of one, acks=1",
        "two of one, acks=0",
        "three of one, acks=1",
        "one of two is out of sync",
        "one of two is out of sync, acks=1",
        "three of two",
    ],
)
def test_acks_all_is_refused_before_the_append_below_min_insync_replicas(
    tmp_path: Path,
    *,
    asked: int,
    replicas: tuple[int, ...],
    in_sync: tuple[int, ...],
    acks: int,
    answer: AppendResult | Refusal,
    high_watermark: int,
) -> None:
    with open_partition(tmp_path / "t-0", min_insync_replicas=str(asked)) as partition:
        partition.lead_or_follow(leadership(replicas, in_sync))
        appended = partition.leader.append(
            memoryview(bytearray(batch_bytes([b"v"]))),
            required_acks=acks,
            produce_version=9,
            now_ms=NOW,
        )
        assert appended == answer
        assert partition.log.log_end_offset == (1 if answer is WRITTEN else 0)
        assert partition.high_watermark == high_watermark
