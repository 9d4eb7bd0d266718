"""A member of a classic group: JoinGroup, SyncGroup, Heartbeat, OffsetCommit, LeaveGroup."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pykbroker.client.committed_offsets import (
    NO_GENERATION,
    NO_MEMBER,
    Membership,
    commit_offsets,
)
from pykbroker.client.coordinator import Coordinator
from pykbroker.client.errors import InvalidResponse, error_of, raise_if_error
from pykbroker.client.range_assignment import Subscription, assign_ranges
from pykbroker.client.retries import BACKOFF_SECONDS, Recovery, recovery_from
from pykbroker_protocol.compiler import MalformedMessage
from pykbroker_protocol.consumer_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    encode_assignment,
    encode_topics,
    read_assignment,
    read_subscription,
)
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from pykbroker_protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from pykbroker_protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from pykbroker_protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pykbroker.client.cluster_client import ClusterClient
    from pykbroker.client.committed_offsets import TopicPartition
    from pykbroker_protocol.consumer_protocol import PartitionsByTopic

ASSIGNOR: Final = "range"
SESSION_TIMEOUT_MS: Final = 10_000
REBALANCE_TIMEOUT_MS: Final = 30_000
JOIN_TIMEOUT_SECONDS: Final = 330.0
"""A join takes as long as the slowest member; the Java default (max.poll.interval.ms) is 5 min."""
HEARTBEAT_SECONDS: Final = 1.0
ASSIGNMENT_VERSION: Final = 0
SUBSCRIPTION_VERSION: Final = 0
"""Version 0 has no owned partitions: the member gives up all of them before it joins."""


class GroupMember:
    """Needs its own client: on a connection that waits to join, the broker answers nothing else."""

    def __init__(self, client: ClusterClient, group_id: str, topic: str) -> None:
        self._client = client
        self._coordinator = Coordinator(client, group_id)
        self._group_id = group_id
        self._topic = topic
        self._membership = NO_MEMBER

    async def join(self) -> list[int]:
        """Joins the next generation of the group; returns the partitions assigned in it."""
        while True:
            joined = await self._join()
            if joined is not None:
                assigned = await self._sync(joined)
                if assigned is not None:
                    return assigned.get(self._topic, [])
            await self._client.options.clock.sleep(BACKOFF_SECONDS)

    async def heartbeat(self) -> bool:
        """Returns False if the member must join again."""
        response = await self._coordinator.request(
            HeartbeatRequest(
                group_id=self._group_id,
                generation_id=self._membership.generation,
                member_id=self._membership.member_id,
            ),
            HeartbeatResponse,
            lambda response: response.error_code,
        )
        return self._is_member(response.error_code)

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> bool:
        """Commits offsets; returns False if the member must join again first."""
        codes = await commit_offsets(self._coordinator, self._group_id, offsets, self._membership)
        return all(self._is_member(code) for code in codes.values())

    async def leave(self, client: ClusterClient, reason: str) -> None:
        """Releases the partitions at once; uses a client on whose connection no join waits."""
        if not self._membership.member_id:
            return
        identity = MemberIdentity(member_id=self._membership.member_id, reason=reason)
        self._membership = NO_MEMBER
        await Coordinator(client, self._group_id).request(
            LeaveGroupRequest(group_id=self._group_id, members=[identity]),
            LeaveGroupResponse,
            lambda response: response.error_code,
        )

    async def _join(self) -> JoinGroupResponse | None:
        protocol = JoinGroupRequestProtocol(
            name=ASSIGNOR, metadata=encode_topics([self._topic], SUBSCRIPTION_VERSION)
        )
        joined = await self._coordinator.request(
            JoinGroupRequest(
                group_id=self._group_id,
                session_timeout_ms=SESSION_TIMEOUT_MS,
                rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
                member_id=self._membership.member_id,
                protocol_type=CONSUMER_PROTOCOL_TYPE,
                protocols=[protocol],
            ),
            JoinGroupResponse,
            lambda response: response.error_code,
            timeout_seconds=JOIN_TIMEOUT_SECONDS,
        )
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:  # KIP-394
            self._membership = Membership(joined.member_id)
            return None
        if not self._is_member(joined.error_code):
            return None
        self._membership = Membership(joined.member_id, joined.generation_id)
        return joined

    async def _sync(self, joined: JoinGroupResponse) -> PartitionsByTopic | None:
        is_leader = joined.leader == joined.member_id
        assignment = await self._assignment(joined) if is_leader else {}
        assignments = [
            SyncGroupRequestAssignment(
                member_id=it, assignment=encode_assignment(assignment[it], ASSIGNMENT_VERSION)
            )
            for it in assignment
        ]
        synced = await self._coordinator.request(
            SyncGroupRequest(
                group_id=self._group_id,
                generation_id=joined.generation_id,
                member_id=joined.member_id,
                protocol_type=joined.protocol_type,
                protocol_name=joined.protocol_name,
                assignments=assignments,
            ),
            SyncGroupResponse,
            lambda response: response.error_code,
            timeout_seconds=JOIN_TIMEOUT_SECONDS,
        )
        if not self._is_member(synced.error_code):
            return None
        try:
            return read_assignment(synced.assignment)
        except MalformedMessage as reason:
            raise InvalidResponse(f"assignment of the group leader: {reason}") from reason

    async def _assignment(self, joined: JoinGroupResponse) -> dict[str, PartitionsByTopic]:
        """Returns the partitions of each member; members may subscribe to different topics."""
        try:
            subscriptions = [
                Subscription(
                    it.member_id, it.group_instance_id, read_subscription(it.metadata).topics
                )
                for it in joined.members
            ]
        except MalformedMessage as reason:
            raise InvalidResponse(f"subscription of a group member: {reason}") from reason
        topics = sorted({topic for it in subscriptions for topic in it.topics})
        metadata = await self._client.metadata(topics)
        return assign_ranges(subscriptions, [it for it in metadata.topics if not it.error_code])

    def _is_member(self, error_code: int) -> bool:
        """Returns False if the error requires a new join; raises other errors."""
        error = error_of(error_code)
        if recovery_from(error) is not Recovery.REJOIN:
            raise_if_error(error_code)
            return True
        is_evicted = error is ErrorCode.UNKNOWN_MEMBER_ID
        member_id = "" if is_evicted else self._membership.member_id
        self._membership = Membership(member_id, NO_GENERATION)
        return False
