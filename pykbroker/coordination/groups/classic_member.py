"""A member of a classic group: identity, protocols and parked requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.coordination.groups.member_bytes import (
    MEMBER_OVERHEAD_BYTES,
    bytes_of_protocols,
    length,
)
from pykbroker_protocol.internal_topics.classic_groups import MemberMetadata
from pykbroker_protocol.late_dataclass import dataclass

if TYPE_CHECKING:
    from pykbroker.coordination.outcome import Ticket
    from pykbroker_protocol.messages.join_group import JoinGroupRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinContext:
    """A JoinGroup request, with its connection and a random member id."""

    request: JoinGroupRequest
    version: int
    ticket: Ticket
    client_id: str
    client_host: str
    new_member_id: str

    @property
    def rebalance_timeout_ms(self) -> int:
        """Rebalance timeout; version 0 has only the session timeout."""
        request = self.request
        return request.session_timeout_ms if self.version == 0 else request.rebalance_timeout_ms

    @property
    def protocols(self) -> dict[str, bytes]:
        return {it.name: bytes(it.metadata) for it in self.request.protocols}


def member_id_for(request: JoinGroupRequest, client_id: str, unique: object) -> str:
    """Returns the id of a new member: client or instance id plus a unique part."""
    instance_id = request.group_instance_id
    return f"{client_id if instance_id is None else instance_id}-{unique}"


@dataclass(slots=True, kw_only=True)
class Member:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: dict[str, bytes]
    """Metadata by protocol in the member's order. The log stores only the elected protocol."""
    assignment: bytes = b""
    is_new: bool = False
    """True until its first generation: the member cannot send heartbeats before."""
    join_ticket: Ticket | None = None
    sync_ticket: Ticket | None = None
    counted_bytes: int = 0
    """Memory counted for this member."""

    @property
    def held_bytes(self) -> int:
        ids = length(self.member_id, self.instance_id, self.client_id, self.client_host)
        metadata = bytes_of_protocols(self.protocols.items())
        return MEMBER_OVERHEAD_BYTES + ids + metadata + len(self.assignment)

    @property
    def has_parked_request(self) -> bool:
        """True if a request of this member is parked, so its connection is alive."""
        return self.join_ticket is not None or self.sync_ticket is not None

    def as_record(self, protocol: str, assignment: bytes) -> MemberMetadata:
        return MemberMetadata(
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout=self.rebalance_timeout_ms,
            session_timeout=self.session_timeout_ms,
            subscription=self.protocols[protocol],
            assignment=assignment,
        )


def member_of_record(stored: MemberMetadata, protocol: str) -> Member:
    timeout_ms = stored.rebalance_timeout
    return Member(
        member_id=stored.member_id,
        instance_id=stored.group_instance_id,
        client_id=stored.client_id,
        client_host=stored.client_host,
        session_timeout_ms=stored.session_timeout,
        rebalance_timeout_ms=stored.session_timeout if timeout_ms < 0 else timeout_ms,
        protocols={protocol: bytes(stored.subscription)},
        assignment=bytes(stored.assignment),
    )
