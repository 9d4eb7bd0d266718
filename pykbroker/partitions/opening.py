"""Opens the partitions of a broker of a cluster while its heartbeats continue."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from pykbroker.slices import in_slices

if TYPE_CHECKING:
    from pykbroker.metadata.image import ClusterImage
    from pykbroker.partitions.partition_registry import Partitions

logger = logging.getLogger(__name__)


async def open_partitions(partitions: Partitions, image: ClusterImage) -> None:
    """Opens the logs on disk, creates missing ones and applies the leadership of all.

    Recovery after a crash scans segments of a gigabyte, so it runs in a thread.
    """
    if not partitions.directory.was_clean:
        await recover_logs(partitions, image)
    updates = partitions.apply_metadata_in_slices(image, image.topics.values())
    await in_slices(updates, begins_at_once=True)


async def recover_logs(partitions: Partitions, image: ClusterImage) -> None:
    """Opens the existing logs in a thread, one after the other.

    The thread is the only user of these logs. A cancelled call returns after the running log.
    """
    directory = partitions.directory
    names = [
        (topic.name, partition.index)
        for topic in image.topics.values()
        for partition in topic.partitions
        if partitions.node_id in partition.replicas and (topic.name, partition.index) in directory
    ]
    is_cancelled = False

    def work() -> None:
        directory.use_this_thread()
        for topic, index in names:
            if is_cancelled:
                return
            try:
                partitions.open_log(
                    image.topics[topic], index, partitions.topic_settings(image, topic)
                )
            except OSError as problem:  # opened again, and logged, by the caller
                logger.debug("%s-%d: recovery failed (%s)", topic, index, problem)

    recovering = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        await asyncio.shield(recovering)
    finally:
        is_cancelled = True
        await asyncio.wait([recovering])
        directory.use_this_thread()
