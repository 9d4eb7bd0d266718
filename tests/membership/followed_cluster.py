"""Controllers of the model and a metadata follower that a test starts, stops and inspects."""

import asyncio
from collections.abc import Callable
from typing import Any

from pykbroker.address import Address
from pykbroker.controller.decision import Decision
from pykbroker.membership.metadata_follower import MetadataFollower
from pykbroker.membership.quorum_view import parse_address
from pykbroker.testing.simulation.controller_model import RunningController
from pykbroker.testing.simulation.controller_model.model import CLUSTER_ID
from pykbroker.testing.simulation.controller_model.model_log import LoggedBatch
from pykbroker_protocol.message import Message
from pykbroker_protocol.messages.fetch import FetchRequest
from pykbroker_protocol.metadata.security import AccessControlEntryRecord
from pykbroker_protocol.metadata.topics import PartitionRecord, RemoveTopicRecord, TopicRecord
from tests.membership.conftest import Followers

DEADLINE_SECONDS = 10.0
ACL = AccessControlEntryRecord(
    id=b"acl " * 4,
    resource_type=2,
    resource_name="a",
    pattern_type=3,
    principal="User:alice",
    host="*",
    operation=3,
    permission_type=3,
)
PARTITION = PartitionRecord(
    partition_id=0,
    topic_id=b"t" * 16,
    replicas=[1],
    isr=[1],
    removing_replicas=[],
    adding_replicas=[],
    leader=1,
    leader_epoch=0,
    partition_epoch=0,
    directories=[b"d" * 16],
)


async def is_true(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not condition():  # noqa: ASYNC110  # no event announces it
            await asyncio.sleep(0.005)


class Cluster:
    """Controllers of the model and one follower."""

    def __init__(self, controllers: RunningController, followers: Followers) -> None:
        self.controllers = controllers
        self.model = controllers.model
        self.followers = followers
        self.follower: MetadataFollower

    @property
    def addresses(self) -> list[Address]:
        return [parse_address(it) for it in self.controllers.addresses]

    async def follow(self, **more: Any) -> MetadataFollower:
        """Starts a follower; returns it when it has caught up."""
        self.follower = await self.begin(**more)
        async with asyncio.timeout(DEADLINE_SECONDS):
            await self.follower.caught_up()
        return self.follower

    async def begin(self, **more: Any) -> MetadataFollower:
        return await self.followers.start(*self.addresses, **{"cluster_id": CLUSTER_ID, **more})

    def append(self, *records: Message) -> int:
        """Appends a batch that the model does not apply; returns its last offset."""
        self.model.log.append(records, self.model.epoch, 0)
        self.model.image.offset = self.model.log.end_offset - 1
        self.model._notify()
        return self.model.log.end_offset - 1

    def append_bytes(self, data: bytes, *, count: int) -> None:
        log = self.model.log
        log.batches.append(
            LoggedBatch(log.end_offset, log.end_offset + count, self.model.epoch, data, ())
        )
        self.model._notify()

    async def create_topic(self, name: str) -> None:
        topic_id = name.encode().ljust(16)
        partition = PARTITION.replace(topic_id=topic_id)
        await self.execute(TopicRecord(name=name, topic_id=topic_id), partition)

    async def delete_topic(self, name: str) -> None:
        await self.execute(RemoveTopicRecord(topic_id=name.encode().ljust(16)))

    async def execute(self, *records: Message) -> None:
        """Commits records that the model applies, too."""
        await self.model.execute(lambda: Decision(records, None))

    async def applied(self, offset: int | None = None) -> None:
        last = self.model.log.end_offset - 1 if offset is None else offset
        async with asyncio.timeout(DEADLINE_SECONDS):
            await self.follower.applied(last)

    def fetched_offsets(self) -> list[int]:
        """Offsets of the Fetch requests that were sent to a known leader."""
        requests = self.controllers.requests(FetchRequest)
        partitions = [it.topics[0].partitions[0] for it in requests]
        return [it.fetch_offset for it in partitions if it.current_leader_epoch]
