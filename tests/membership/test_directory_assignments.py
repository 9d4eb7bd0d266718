"""Replicas whose directory differs from that in the metadata are reported until it is right."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from pykbroker.clock import SystemClock
from pykbroker.controller_access import ControllerUnavailable
from pykbroker.membership.directory_assignments import (
    REPLICAS_MAX,
    DirectoryAssignments,
    Replica,
    is_misplaced,
)
from pykbroker.metadata.image import ClusterImage, PartitionImage, TopicImage
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsResponse,
    DirectoryResult,
    PartitionResult,
    TopicResult,
)
from tests.membership.scripted_channel import ScriptedChannel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pykbroker_protocol.message import Message

NODE, EPOCH = 4, 77
OWN, OTHER = b"own directory...", b"other directory."
TOPIC = b"topic id........"


class SteppingClock(SystemClock):
    """A clock whose pauses take no time."""

    def __init__(self) -> None:
        self.pauses: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)


def partition(
    index: int, directory: bytes, replicas: tuple[int, ...] = (9, NODE)
) -> PartitionImage:
    return PartitionImage(
        index=index,
        replicas=replicas,
        in_sync=replicas,
        leader=replicas[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=(OTHER, directory),
    )


def image_of(*partitions: PartitionImage) -> ClusterImage:
    image = ClusterImage(cluster_id="c")
    replace_topic(image, *partitions)
    return image


def replace_topic(image: ClusterImage, *partitions: PartitionImage) -> None:
    topic = TopicImage(name="t", id=TOPIC, partitions=partitions)
    image.topics["t"] = image.topics_by_id[TOPIC] = topic


def answered(*codes: tuple[int, ErrorCode]) -> AssignReplicasToDirsResponse:
    rows = [PartitionResult(partition_index=index, error_code=code) for index, code in codes]
    topic = TopicResult(topic_id=TOPIC, partitions=rows)
    return AssignReplicasToDirsResponse(
        error_code=ErrorCode.NONE, directories=[DirectoryResult(id=OWN, topics=[topic])]
    )


def replicas_in(request: Any) -> list[Replica]:
    (directory,) = request.directories
    assert (directory.id, request.broker_id, request.broker_epoch) == (OWN, NODE, EPOCH)
    return [
        Replica(topic.topic_id, it.partition_index)
        for topic in directory.topics
        for it in topic.partitions
    ]


async def check(
    image: ClusterImage, outcomes: Sequence[Message | Exception]
) -> tuple[ScriptedChannel, SteppingClock]:
    """Checks all topics and runs until the requests are sent."""
    channel, clock = ScriptedChannel(*outcomes), SteppingClock()
    assignments = DirectoryAssignments(
        channel, clock, broker_id=NODE, broker_epoch=lambda: EPOCH, directory_id=OWN
    )
    await assignments.check(image, list(image.topics.values()))
    for _ in range(100):
        await asyncio.sleep(0)
    await assignments.close()
    return channel, clock


@pytest.mark.parametrize(
    ("replicas", "directory", "expected"),
    [
        ((9, NODE), OWN, False),
        ((9, NODE), OTHER, True),
        ((9, NODE), bytes(16), True),
        ((9, 8), OTHER, False),
    ],
)
def test_a_replica_is_misplaced_if_the_metadata_has_another_directory(
    replicas: tuple[int, ...], directory: bytes, *, expected: bool
) -> None:
    assert is_misplaced(partition(0, directory, replicas), NODE, OWN) == expected


async def test_only_misplaced_replicas_are_reported() -> None:
    image = image_of(
        partition(0, OTHER), partition(1, OWN), partition(2, OTHER), partition(3, OTHER, (9, 8))
    )
    channel, clock = await check(image, [answered((0, ErrorCode.NONE), (2, ErrorCode.NONE))])
    (request,) = channel.requests
    assert replicas_in(request) == [Replica(TOPIC, 0), Replica(TOPIC, 2)]
    assert not clock.pauses


async def test_nothing_is_sent_if_all_directories_are_right() -> None:
    channel, _ = await check(image_of(partition(0, OWN)), [])
    assert not channel.requests


@pytest.mark.parametrize(
    ("outcome", "left"),
    [
        (ControllerUnavailable("none"), [0, 1]),
        (
            AssignReplicasToDirsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH, directories=()),
            [0, 1],
        ),
        (answered((0, ErrorCode.NONE), (1, ErrorCode.NOT_LEADER_OR_FOLLOWER)), [1]),
        (answered((0, ErrorCode.NONE)), [1]),
    ],
)
async def test_replicas_that_are_not_assigned_are_reported_again_after_a_pause(
    outcome: Message | Exception, left: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    image = image_of(partition(0, OTHER), partition(1, OTHER))
    success = answered(*((index, ErrorCode.NONE) for index in left))
    channel, clock = await check(image, [outcome, outcome, success])
    assert [it.partition for it in replicas_in(channel.requests[1])] == left
    assert clock.pauses == [0.1, 0.2]
    assert len(channel.requests) == 3
    assert "the controller does not know their log directory" in caplog.text


async def test_a_replica_that_the_metadata_has_placed_meanwhile_is_not_reported_again() -> None:
    image = image_of(partition(0, OTHER), partition(1, OTHER))
    channel, clock = ScriptedChannel(ControllerUnavailable("none")), SteppingClock()
    assignments = DirectoryAssignments(
        channel, clock, broker_id=NODE, broker_epoch=lambda: EPOCH, directory_id=OWN
    )
    await assignments.check(image, list(image.topics.values()))
    replace_topic(image, partition(0, OWN), partition(1, OTHER))
    channel.outcomes.append(answered((1, ErrorCode.NONE)))
    for _ in range(100):
        await asyncio.sleep(0)
    await assignments.close()
    assert replicas_in(channel.requests[-1]) == [Replica(TOPIC, 1)]


async def test_a_request_has_a_bounded_number_of_replicas() -> None:
    count = REPLICAS_MAX + 10
    image = image_of(*(partition(index, OTHER) for index in range(count)))
    first = answered(*((index, ErrorCode.NONE) for index in range(REPLICAS_MAX)))
    rest = answered(*((index, ErrorCode.NONE) for index in range(REPLICAS_MAX, count)))
    channel, _ = await check(image, [first, rest])
    assert [len(replicas_in(it)) for it in channel.requests] == [REPLICAS_MAX, 10]
