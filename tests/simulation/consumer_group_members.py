"""Members of a consumer group (KIP-848) and the partitions that each believes to own."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pykbroker.address import Address
from pykbroker.client.broker_connection import BrokerConnection
from pykbroker.client.connection_options import ConnectionOptions
from pykbroker.client.errors import ClientError
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from pykbroker_protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pykbroker.testing.simulation import SimulatedNode

Partition = tuple[bytes, int]

COORDINATOR = FindCoordinatorRequest(coordinator_keys=["next"])
OPTIONS = ConnectionOptions(timeout_seconds=2.0)
HEARTBEAT_SECONDS = 0.5
SESSION_SECONDS = 5.0
JOINING = 0
LEAVING = -1


@dataclass
class Ownership:
    """Asserts that a partition has one owner at a time, from the members' point of view."""

    now: Callable[[], float]
    owners: dict[Partition, Member] = field(default_factory=dict)
    taken: int = 0

    def take(self, member: Member, place: Partition) -> None:
        other = self.owners.get(place)
        assert other is None or other is member or not other.believes_to_be_alive, (
            f"{member.name} was given partition {place[1]}, which {other and other.name} has"
        )
        self.owners[place] = member
        self.taken += 1

    def give_up(self, member: Member, place: Partition) -> None:
        if self.owners.get(place) is member:
            del self.owners[place]


class Member:
    """Follows assignments. Restarts after a session timeout without a response."""

    def __init__(self, name: str, topic: str, ownership: Ownership) -> None:
        self.name = name
        self.owned: set[Partition] = set()
        self._topic = topic
        self._ownership = ownership
        self._epoch = JOINING
        self._answered_at = -SESSION_SECONDS
        self._is_dead = False

    @property
    def believes_to_be_alive(self) -> bool:
        is_recent = self._ownership.now() - self._answered_at < SESSION_SECONDS
        return is_recent and not self._is_dead

    async def live(self, kafka: SimulatedNode) -> None:
        host, _, port = kafka.bootstrap.partition(":")
        try:
            while True:
                with suppress(ClientError):
                    broker = await BrokerConnection.open(Address(host, int(port)), OPTIONS)
                    # The first FindCoordinator request creates __consumer_offsets.
                    await broker.request(COORDINATOR, FindCoordinatorResponse)
                    while True:
                        await self._heartbeat(broker)
                        await asyncio.sleep(HEARTBEAT_SECONDS)
                await asyncio.sleep(HEARTBEAT_SECONDS)
        finally:
            self._is_dead = True

    async def _heartbeat(self, broker: BrokerConnection) -> None:
        if not self.believes_to_be_alive:
            self._restart()
        asked_at = self._ownership.now()
        answer = await broker.request(self._request(), ConsumerGroupHeartbeatResponse)
        match ErrorCode(answer.error_code):  # type: ignore[call-arg]  # looks a member up
            case ErrorCode.NONE:
                self._answered_at = asked_at
                self._follow(answer)
            case ErrorCode.FENCED_MEMBER_EPOCH | ErrorCode.UNKNOWN_MEMBER_ID:
                self._restart()
            case _:
                pass  # the coordinator is not ready; retried with the next heartbeat

    def _request(self) -> ConsumerGroupHeartbeatRequest:
        by_topic: dict[bytes, list[int]] = {}
        for topic_id, number in sorted(self.owned):
            by_topic.setdefault(topic_id, []).append(number)
        return ConsumerGroupHeartbeatRequest(
            group_id="next",
            member_id=self.name,
            member_epoch=self._epoch,
            rebalance_timeout_ms=10_000,
            subscribed_topic_names=[self._topic],
            topic_partitions=[
                TopicPartitions(topic_id=topic_id, partitions=numbers)
                for topic_id, numbers in by_topic.items()
            ],
        )

    def _follow(self, answer: ConsumerGroupHeartbeatResponse) -> None:
        self._epoch = answer.member_epoch
        if answer.assignment is None:
            return
        assigned = {
            (topic.topic_id, number)
            for topic in answer.assignment.topic_partitions
            for number in topic.partitions
        }
        for place in sorted(self.owned - assigned):
            self._ownership.give_up(self, place)
        for place in sorted(assigned - self.owned):
            self._ownership.take(self, place)
        self.owned = assigned

    def _restart(self) -> None:
        for place in sorted(self.owned):
            self._ownership.give_up(self, place)
        self.owned = set()
        self._epoch = JOINING
        self._answered_at = self._ownership.now() - SESSION_SECONDS
