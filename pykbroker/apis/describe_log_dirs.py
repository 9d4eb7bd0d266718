"""DescribeLogDirs: what lies in this node's directory, how large, and how much room is left."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pykbroker.apis.node import Call
    from pykbroker.partitions.partition import Partition
    from pykbroker_protocol.messages.describe_log_dirs import DescribeLogDirsRequest


def handle(request: DescribeLogDirsRequest, call: Call) -> DescribeLogDirsResponse:
    path = call.node.partitions.directory.path
    total_bytes, usable_bytes = room_at(path)
    rows = topic_rows(asked_for(request, call))
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


def asked_for(request: DescribeLogDirsRequest, call: Call) -> list[Partition]:
    if request.topics is None:
        return list(call.node.partitions)
    found = (
        call.node.partitions.get(topic.topic, index)
        for topic in request.topics
        for index in topic.partitions
    )
    return [partition for partition in found if partition is not None]


def topic_rows(partitions: Iterable[Partition]) -> list[DescribeLogDirsTopic]:
    in_order = sorted(partitions, key=lambda it: (it.topic, it.index))
    return [
        DescribeLogDirsTopic(
            name=topic,
            partitions=[
                DescribeLogDirsPartition(
                    partition_index=it.index,
                    partition_size=it.log.size_bytes,
                    offset_lag=max(0, it.high_watermark - it.log.log_end_offset),
                    is_future_key=False,
                )
                for it in group
            ],
        )
        for topic, group in groupby(in_order, key=lambda it: it.topic)
    ]


def room_at(path: str) -> tuple[int, int]:
    import shutil  # noqa: PLC0415 - loads three compressors, which a start need not wait for

    usage = shutil.disk_usage(path)
    return usage.total, usage.free
