"""A member of a KIP-848 group: heartbeats, accepts and revokes partitions."""

import asyncio
import time
from collections.abc import Sequence
from uuid import uuid4

from benchmarks.clients.membership import (
    HEARTBEAT_SECONDS,
    REBALANCE_TIMEOUT_MS,
    Group,
    Member,
    Peer,
    RefusedError,
)
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

VERSION = 1
ASSIGNOR = "uniform"
_LEAVING_EPOCH = -1


class ConsumerMember(Member):
    def __init__(self, group: Group, peer: Peer) -> None:
        super().__init__(group, peer)
        self.member_id = str(uuid4())
        self._epoch = 0
        self._owned: list[TopicPartitions] = []

    async def run(self) -> None:
        self.joined_at = time.perf_counter()
        answer = await self._ask(self._joining())
        while True:
            self._epoch = answer.member_epoch
            if answer.assignment is not None:
                self._owned = list(answer.assignment.topic_partitions)
                self.group.unsettled(self)
                answer = await self._ask(self._heartbeat(owned=self._owned))  # acknowledge
                continue
            share = sum(len(topic.partitions) for topic in self._owned)
            self.group.settled(self, self._epoch, share)
            await asyncio.sleep(HEARTBEAT_SECONDS)
            answer = await self._ask(self._heartbeat(owned=None))

    def _joining(self) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group.name,
            member_id=self.member_id,
            member_epoch=0,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            subscribed_topic_names=[self.group.topic],
            server_assignor=ASSIGNOR,
            topic_partitions=[],
        )

    def _heartbeat(self, *, owned: list[TopicPartitions] | None) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group.name,
            member_id=self.member_id,
            member_epoch=self._epoch,
            topic_partitions=owned,
        )

    async def _ask(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        answer = await self.peer.ask(request, VERSION, ConsumerGroupHeartbeatResponse)
        if answer.error_code != ErrorCode.NONE:
            said = f"ConsumerGroupHeartbeat: error {answer.error_code}: {answer.error_message}"
            raise RefusedError(said)
        return answer

    @staticmethod
    async def leave(members: Sequence[Member]) -> None:
        requests = (
            member.peer.ask(
                ConsumerGroupHeartbeatRequest(
                    group_id=member.group.name,
                    member_id=member.member_id,
                    member_epoch=_LEAVING_EPOCH,
                ),
                VERSION,
                ConsumerGroupHeartbeatResponse,
            )
            for member in members
        )
        await asyncio.gather(*requests)
