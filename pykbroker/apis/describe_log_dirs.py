"""DescribeLogDirs: what lies in this node's directory, how large, and how much room is left."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pykbroker.apis.slices import Slice, sliced
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from pykbroker.apis.node import Call
    from pykbroker.apis.slices import Slices
    from pykbroker.partitions.partition import Partition
    from pykbroker_protocol.messages.describe_log_dirs import DescribeLogDirsRequest


@sliced
def handle(request: DescribeLogDirsRequest, call: Call) -> Slices[DescribeLogDirsResponse]:
    count = Slice()
    path = call.node.partitions.directory.path
    total_bytes, usable_bytes = room_at(path)
    asked = yield from asked_for(request, call, count)
    rows = yield from topic_rows(asked, count)
    return DescribeLogDirsResponse(
        results=[
            DescribeLogDirsResult(
                error_code=ErrorCode.NONE,
                log_dir=str(Path(path).resolve()),
                topics=rows,
                total_bytes=total_bytes,
                usable_bytes=usable_bytes,
            )
        ]
    )


def asked_for(
    request: DescribeLogDirsRequest, call: Call, count: Slice
) -> Slices[dict[str, dict[int, Partition]]]:
    """By topic and index."""
    asked: dict[str, dict[int, Partition]] = {}
    if request.topics is None:
        for partition in list(call.node.partitions):
            asked.setdefault(partition.topic, {})[partition.index] = partition
        return asked
    for topic in request.topics:
        for index in topic.partitions:
            found = call.node.partitions.get(topic.topic, index)
            if found is not None:
                asked.setdefault(topic.topic, {})[index] = found
            if count.is_full():
                yield
    return asked


def topic_rows(
    asked: dict[str, dict[int, Partition]], count: Slice
) -> Slices[list[DescribeLogDirsTopic]]:
    rows = []
    for topic in sorted(asked):
        partitions = [partition for _, partition in sorted(asked[topic].items())]
        described = yield from count.each(partition_row, partitions)
        rows.append(DescribeLogDirsTopic(name=topic, partitions=described))
    return rows


def partition_row(partition: Partition) -> DescribeLogDirsPartition:
    return DescribeLogDirsPartition(
        partition_index=partition.index,
        partition_size=partition.log.size_bytes,
        offset_lag=max(0, partition.high_watermark - partition.log.log_end_offset),
        is_future_key=False,
    )


def room_at(path: str) -> tuple[int, int]:
    import shutil  # noqa: PLC0415 - loads three compressors, which a start need not wait for

    usage = shutil.disk_usage(path)
    return usage.total, usage.free
