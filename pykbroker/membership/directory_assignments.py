"""Reports replicas whose log is in another directory than the metadata says (KIP-858).

This broker has one log directory. The metadata can contain another one, for example after the
directory was replaced by a new one. The controller elects only replicas in online directories.
"""

from __future__ import annotations

import asyncio
import logging
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from pykbroker.client.errors import error_of
from pykbroker.controller_access import ControllerUnavailable
from pykbroker.slices import SLICE_ELEMENTS, in_slices
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    DirectoryData,
    PartitionData,
    TopicData,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pykbroker.clock import Clock
    from pykbroker.controller_access import ControllerChannel
    from pykbroker.metadata.image import ClusterImage, PartitionImage, TopicImage
    from pykbroker.slices import Slices

logger = logging.getLogger(__name__)

REPLICAS_MAX: Final = 2250
"""Replicas in one request, as in Apache Kafka."""
BACKOFF_SECONDS: Final = 0.1
BACKOFF_SECONDS_MAX: Final = 10.0


class Replica(NamedTuple):
    """A replica of this broker."""

    topic_id: bytes
    partition: int


def is_misplaced(partition: PartitionImage, node_id: int, directory_id: bytes) -> bool:
    """Returns whether the metadata has another directory for the replica of this broker."""
    if node_id not in partition.replicas:
        return False
    position = partition.replicas.index(node_id)
    return partition.directories[position : position + 1] != (directory_id,)


def misplaced_in_slices(
    topics: Iterable[TopicImage], node_id: int, directory_id: bytes
) -> Slices[list[Replica]]:
    found = []
    left = SLICE_ELEMENTS
    for topic in topics:
        for partition in topic.partitions:
            if is_misplaced(partition, node_id, directory_id):
                found.append(Replica(topic.id, partition.index))
            left -= 1
            if not left:
                left = SLICE_ELEMENTS
                yield
    return found


def still_misplaced(
    replica: Replica, image: ClusterImage, node_id: int, directory_id: bytes
) -> bool:
    topic = image.topics_by_id.get(replica.topic_id)
    return (
        topic is not None
        and replica.partition < len(topic.partitions)
        and is_misplaced(topic.partitions[replica.partition], node_id, directory_id)
    )


def assignment_request(
    replicas: Sequence[Replica], *, directory_id: bytes, broker_id: int, broker_epoch: int
) -> AssignReplicasToDirsRequest:
    indexes: dict[bytes, list[int]] = {}
    for it in replicas:
        indexes.setdefault(it.topic_id, []).append(it.partition)
    topics = [
        TopicData(
            topic_id=topic_id, partitions=[PartitionData(partition_index=it) for it in partitions]
        )
        for topic_id, partitions in indexes.items()
    ]
    return AssignReplicasToDirsRequest(
        broker_id=broker_id,
        broker_epoch=broker_epoch,
        directories=[DirectoryData(id=directory_id, topics=topics)],
    )


def assigned_in(response: AssignReplicasToDirsResponse) -> set[Replica]:
    """Returns the replicas that the controller has assigned."""
    return {
        Replica(topic.topic_id, it.partition_index)
        for directory in response.directories
        for topic in directory.topics
        for it in topic.partitions
        if it.error_code == ErrorCode.NONE
    }


class DirectoryAssignments:
    """Sends one request after the other until the metadata has the right directories."""

    def __init__(
        self,
        channel: ControllerChannel,
        clock: Clock,
        *,
        broker_id: int,
        broker_epoch: Callable[[], int],
        directory_id: bytes,
    ) -> None:
        self._channel = channel
        self._clock = clock
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._directory_id = directory_id
        self._pending: dict[Replica, None] = {}
        """Bounded by the replicas of this broker."""
        self._sending: asyncio.Task[None] | None = None

    async def check(self, image: ClusterImage, topics: Iterable[TopicImage]) -> None:
        """Reports misplaced replicas of these topics in the background; `image` is current."""
        found = await in_slices(
            misplaced_in_slices(topics, self._broker_id, self._directory_id), begins_at_once=True
        )
        self._pending.update(dict.fromkeys(found))
        if self._pending and (self._sending is None or self._sending.done()):
            self._sending = asyncio.create_task(self._send_all(image))

    async def _send_all(self, image: ClusterImage) -> None:
        pause = BACKOFF_SECONDS
        while self._pending:
            batch = self._next_batch(image)
            if not batch:
                continue
            failure = await self._send(batch)
            if failure is None:
                pause = BACKOFF_SECONDS
                continue
            logger.warning(
                "%d replicas: the controller does not know their log directory (%s); they cannot "
                "be elected; retrying in %g s",
                len(batch),
                failure,
                pause,
            )
            self._pending.update(dict.fromkeys(batch))
            await self._clock.sleep(pause)
            pause = min(2 * pause, BACKOFF_SECONDS_MAX)

    def _next_batch(self, image: ClusterImage) -> list[Replica]:
        """Removes the next replicas, and returns those whose directory is still another one."""
        candidates = list(islice(self._pending, REPLICAS_MAX))
        for it in candidates:
            del self._pending[it]
        return [
            it
            for it in candidates
            if still_misplaced(it, image, self._broker_id, self._directory_id)
        ]

    async def _send(self, batch: list[Replica]) -> str | None:
        """Returns the reason if replicas are left; the assigned ones are removed from `batch`."""
        request = assignment_request(
            batch,
            directory_id=self._directory_id,
            broker_id=self._broker_id,
            broker_epoch=self._broker_epoch(),
        )
        try:
            response = await self._channel.request(request, AssignReplicasToDirsResponse)
        except ControllerUnavailable as failure:
            return str(failure)
        if response.error_code:
            return error_of(response.error_code).name
        assigned = assigned_in(response)
        batch[:] = [it for it in batch if it not in assigned]
        return "errors of single partitions" if batch else None

    async def close(self) -> None:
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)
