"""A member of a classic group: joins, hands out partitions if it leads, is alive, leaves."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from pykbroker.cli.coordinator import Coordinator
from pykbroker.cli.groups.committed import NO_GENERATION, NOBODY, Membership, commit_offsets
from pykbroker.cli.groups.member_protocol import (
    PROTOCOL_TYPE,
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)
from pykbroker.cli.groups.sharing import Reader, share_by_range
from pykbroker.cli.refusals import error_of, raise_if_refused
from pykbroker.cli.topic_lookup import BACKOFF_S
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

    from pykbroker.cli.client import Client
    from pykbroker.cli.groups.committed import Place
    from pykbroker.cli.groups.member_protocol import Shares

ASSIGNOR: Final = "range"
SESSION_TIMEOUT_MS: Final = 10_000
REBALANCE_TIMEOUT_MS: Final = 30_000
# A rebalance takes as long as the slowest member may; five minutes is usual among Java's.
JOIN_TIMEOUT_S: Final = 330.0
HEARTBEAT_INTERVAL_S: Final = 1.0
MUST_REJOIN: Final = frozenset(
    {
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
    }
)


class Member:
    """Its place in the group is kept here; `client` is its own, for a join may take minutes."""

    def __init__(self, client: Client, group_id: str, topic: str) -> None:
        self._client = client
        self._coordinator = Coordinator(client, group_id)
        self._group_id = group_id
        self._topic = topic
        self._membership = NOBODY

    async def join(self) -> list[int]:
        """Take part in the group's next generation; our partitions in it."""
        while True:
            joined = await self._join()
            if joined is not None:
                assigned = await self._sync(joined)
                if assigned is not None:
                    return assigned.get(self._topic, [])
            await asyncio.sleep(BACKOFF_S)

    async def heartbeat(self) -> bool:
        """Whether the generation goes on; if not, everybody has to join again."""
        response = await self._coordinator.ask(
            HeartbeatRequest(
                group_id=self._group_id,
                generation_id=self._membership.generation,
                member_id=self._membership.member_id,
            ),
            HeartbeatResponse,
            lambda answer: answer.error_code,
        )
        return self._may_go_on(response.error_code)

    async def commit(self, offsets: Mapping[Place, int]) -> bool:
        """Write how far we have read; False if the group has gone on without us."""
        codes = await commit_offsets(self._coordinator, self._group_id, offsets, self._membership)
        return all(self._may_go_on(code) for code in codes.values())

    async def leave(self, client: Client) -> None:
        """Let others have our partitions at once; by a connection on which no join is parked."""
        if not self._membership.member_id:
            return
        identity = MemberIdentity(member_id=self._membership.member_id, reason="the command ends")
        self._membership = NOBODY
        await Coordinator(client, self._group_id).ask(
            LeaveGroupRequest(group_id=self._group_id, members=[identity]),
            LeaveGroupResponse,
            lambda answer: answer.error_code,
        )

    async def _join(self) -> JoinGroupResponse | None:
        protocol = JoinGroupRequestProtocol(
            name=ASSIGNOR, metadata=write_subscription([self._topic])
        )
        joined = await self._coordinator.ask(
            JoinGroupRequest(
                group_id=self._group_id,
                session_timeout_ms=SESSION_TIMEOUT_MS,
                rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
                member_id=self._membership.member_id,
                protocol_type=PROTOCOL_TYPE,
                protocols=[protocol],
            ),
            JoinGroupResponse,
            lambda answer: answer.error_code,
            timeout_s=JOIN_TIMEOUT_S,
        )
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:  # KIP-394
            self._membership = Membership(joined.member_id)
            return None
        if not self._may_go_on(joined.error_code):
            return None
        self._membership = Membership(joined.member_id, joined.generation_id)
        return joined

    async def _sync(self, joined: JoinGroupResponse) -> Shares | None:
        shares = await self._shares(joined) if joined.leader == joined.member_id else {}
        assignments = [
            SyncGroupRequestAssignment(member_id=it, assignment=write_assignment(shares[it]))
            for it in shares
        ]
        synced = await self._coordinator.ask(
            SyncGroupRequest(
                group_id=self._group_id,
                generation_id=joined.generation_id,
                member_id=joined.member_id,
                protocol_type=joined.protocol_type,
                protocol_name=joined.protocol_name,
                assignments=assignments,
            ),
            SyncGroupResponse,
            lambda answer: answer.error_code,
            timeout_s=JOIN_TIMEOUT_S,
        )
        return read_assignment(synced.assignment) if self._may_go_on(synced.error_code) else None

    async def _shares(self, joined: JoinGroupResponse) -> dict[str, Shares]:
        """As leader, what every member gets; some may read other topics than we do."""
        readers = [
            Reader(it.member_id, it.group_instance_id, read_subscription(it.metadata))
            for it in joined.members
        ]
        topics = sorted({topic for reader in readers for topic in reader.topics})
        metadata = await self._client.metadata(topics)
        return share_by_range(readers, [it for it in metadata.topics if not it.error_code])

    def _may_go_on(self, error_code: int) -> bool:
        code = error_of(error_code)
        if code not in MUST_REJOIN:
            raise_if_refused(error_code)
            return True
        is_forgotten = code is ErrorCode.UNKNOWN_MEMBER_ID
        member_id = "" if is_forgotten else self._membership.member_id
        self._membership = Membership(member_id, NO_GENERATION)
        return False
