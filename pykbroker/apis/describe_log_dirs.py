"""DescribeLogDirs: returns sizes of replicas and free space of the log directory."""

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
    total_bytes, usable_bytes = disk_space(path)
    requested = yield from requested_partitions(request, call, count)
    rows = yield from topic_rows(requested, count)
    return DescribeLogDirsResponse(
        results=[
            DescribeLogDirsResult(
                error_code=ErrorCode.NONE,
                log_dir=str(Path(path).resolve()),
                topics=rows,
                total_bytes=total_bytes,
                usable_bytes=usable_bytes,
                is_cordoned=is_cordoned(call),
            )
        ]
    )


def is_cordoned(call: Call) -> bool:
    """Returns whether the controller places no new replicas here (KIP-1066)."""
    broker = call.node.image.brokers.get(call.node.node_id)
    directory_id = call.node.partitions.directory.directory_id
    return broker is not None and directory_id in broker.cordoned_directories


def requested_partitions(
    request: DescribeLogDirsRequest, call: Call, count: Slice
) -> Slices[dict[str, dict[int, Partition]]]:
    """Returns the requested partitions by topic and index."""
    requested: dict[str, dict[int, Partition]] = {}
    if request.topics is None:
        for partition in list(call.node.partitions):
            requested.setdefault(partition.topic, {})[partition.index] = partition
        return requested
    for topic in request.topics:
        for index in topic.partitions:
            found = call.node.partitions.get(topic.topic, index)
            if found is not None:
                requested.setdefault(topic.topic, {})[index] = found
            if count.is_full():
                yield
    return requested


def topic_rows(
    requested: dict[str, dict[int, Partition]], count: Slice
) -> Slices[list[DescribeLogDirsTopic]]:
    rows = []
    for topic in sorted(requested):
        partitions = [partition for _, partition in sorted(requested[topic].items())]
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


def disk_space(path: str) -> tuple[int, int]:
    import shutil  # noqa: PLC0415 - a slow import that a start does not need

    usage = shutil.disk_usage(path)
    return usage.total, usage.free
