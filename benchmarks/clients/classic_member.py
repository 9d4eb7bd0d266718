"""A member of a classic group: JoinGroup, SyncGroup, Heartbeat, and assignment as leader."""

import asyncio
import time
from collections.abc import Sequence

from benchmarks.clients.membership import (
    HEARTBEAT_SECONDS,
    REBALANCE_TIMEOUT_MS,
    SESSION_TIMEOUT_MS,
    Group,
    Member,
    Peer,
    RefusedError,
)
from pykbroker_protocol.consumer_protocol import (
    encode_assignment,
    encode_topics,
    read_assignment,
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

JOIN_VERSION, SYNC_VERSION, HEARTBEAT_VERSION, LEAVE_VERSION = 9, 5, 4, 5
PROTOCOL_TYPE, PROTOCOL = "consumer", "range"
_CONSUMER_PROTOCOL_VERSION = 1
_AGAIN = frozenset((ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION))


class ClassicMember(Member):
    def __init__(self, group: Group, peer: Peer) -> None:
        super().__init__(group, peer)
        self._metadata = encode_topics([group.topic], _CONSUMER_PROTOCOL_VERSION)

    async def run(self) -> None:
        self.joined_at = time.perf_counter()
        while True:
            joined = await self._join()
            share = await self._sync(joined)
            if share is None:
                continue
            self.group.settled(self, joined.generation_id, share)
            await self._stay(joined.generation_id)
            self.group.unsettled(self)

    async def _join(self) -> JoinGroupResponse:
        while True:
            request = JoinGroupRequest(
                group_id=self.group.name,
                session_timeout_ms=SESSION_TIMEOUT_MS,
                rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
                member_id=self.member_id,
                protocol_type=PROTOCOL_TYPE,
                protocols=[JoinGroupRequestProtocol(name=PROTOCOL, metadata=self._metadata)],
            )
            answer = await self.peer.ask(request, JOIN_VERSION, JoinGroupResponse)
            if answer.error_code == ErrorCode.NONE:
                return answer
            if answer.error_code != ErrorCode.MEMBER_ID_REQUIRED:
                raise RefusedError(f"JoinGroup: error {answer.error_code}")
            self.member_id = answer.member_id

    async def _sync(self, joined: JoinGroupResponse) -> int | None:
        """Returns the number of assigned partitions, or None if the member must rejoin."""
        request = SyncGroupRequest(
            group_id=self.group.name,
            generation_id=joined.generation_id,
            member_id=self.member_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=PROTOCOL,
            assignments=self._share_out(joined) if joined.leader == self.member_id else [],
        )
        answer = await self.peer.ask(request, SYNC_VERSION, SyncGroupResponse)
        if answer.error_code in _AGAIN:
            return None
        if answer.error_code != ErrorCode.NONE:
            raise RefusedError(f"SyncGroup: error {answer.error_code}")
        return sum(map(len, read_assignment(answer.assignment).values()))

    def _share_out(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        """Range assignment of one topic: the first members get the remainder of the division."""
        least, more = divmod(self.group.partitions, len(joined.members))
        shared, first = [], 0
        for number, member in enumerate(sorted(joined.members, key=lambda it: it.member_id)):
            after = first + least + (number < more)
            partitions = {self.group.topic: range(first, after)}
            encoded = encode_assignment(partitions, _CONSUMER_PROTOCOL_VERSION)
            shared.append(
                SyncGroupRequestAssignment(member_id=member.member_id, assignment=encoded)
            )
            first = after
        return shared

    async def _stay(self, generation: int) -> None:
        """Sends heartbeats until the generation ends."""
        request = HeartbeatRequest(
            group_id=self.group.name, generation_id=generation, member_id=self.member_id
        )
        while True:
            answer = await self.peer.ask(request, HEARTBEAT_VERSION, HeartbeatResponse)
            if answer.error_code in _AGAIN:
                return
            if answer.error_code != ErrorCode.NONE:
                raise RefusedError(f"Heartbeat: error {answer.error_code}")
            await asyncio.sleep(HEARTBEAT_SECONDS)

    @staticmethod
    async def leave(members: Sequence[Member]) -> None:
        request = LeaveGroupRequest(
            group_id=members[0].group.name,
            members=[MemberIdentity(member_id=it.member_id) for it in members],
        )
        await members[0].peer.ask(request, LEAVE_VERSION, LeaveGroupResponse)
