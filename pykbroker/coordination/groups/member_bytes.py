"""Measures the memory of group members, and limits it.

Clients choose what a member stores: protocol metadata, subscriptions, ids, assignments. Apache
Kafka limits it only by the request size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pykbroker.coordination.groups.consumer_member import ConsumerMember
    from pykbroker.coordination.groups.settings import GroupSettings
    from pykbroker_protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
    from pykbroker_protocol.messages.join_group import JoinGroupRequest

MEMBER_OVERHEAD_BYTES = 1024
"""Estimate for objects and timers of a member, so that many small members count, too."""
NAME_OVERHEAD_BYTES = 64
"""Estimate for the string object of a topic name or protocol."""


class MemberBytes:
    """Memory of all members of all partitions that this node coordinates."""

    __slots__ = ("total",)

    def __init__(self) -> None:
        self.total = 0


class MemberBytesByGroup:
    """Memory of the members of one partition."""

    __slots__ = ("_by_group", "of_coordinator")

    def __init__(self, of_coordinator: MemberBytes) -> None:
        self.of_coordinator = of_coordinator
        self._by_group: dict[str, int] = {}

    def note(self, group_id: str, held_bytes: int) -> None:
        self.of_coordinator.total += held_bytes - self._by_group.get(group_id, 0)
        if held_bytes:
            self._by_group[group_id] = held_bytes
        else:
            self._by_group.pop(group_id, None)

    def clear(self) -> None:
        """Subtracts all members after the partition moved to another coordinator."""
        self.of_coordinator.total -= sum(self._by_group.values())
        self._by_group.clear()

    def refusal(
        self, before_bytes: int, after_bytes: int, settings: GroupSettings, *, others_bytes: int = 0
    ) -> tuple[ErrorCode, str]:
        """Returns the error, with a log message, if a member may not grow; it may always shrink.

        The same request may let other members grow by `others_bytes`.
        """
        if after_bytes <= before_bytes:
            return ErrorCode.NONE, ""
        if after_bytes > settings.member_bytes_max:
            limit = f"{settings.member_bytes_max} (group.member.max.bytes)"
            return ErrorCode.MESSAGE_TOO_LARGE, f"member of {after_bytes} bytes, at most {limit}"
        total_bytes = self.of_coordinator.total + others_bytes + after_bytes - before_bytes
        if total_bytes > settings.all_members_bytes_max:
            limit = f"{settings.all_members_bytes_max} (group.coordinator.members.max.bytes)"
            words = f"members of all groups would hold {total_bytes} bytes, at most {limit}"
            return ErrorCode.GROUP_MAX_SIZE_REACHED, words
        return ErrorCode.NONE, ""


def length(*texts: str | None) -> int:
    return sum(len(it) for it in texts if it is not None)


def bytes_of_protocols(protocols: Iterable[tuple[str, bytes]]) -> int:
    return sum(NAME_OVERHEAD_BYTES + len(name) + len(metadata) for name, metadata in protocols)


def bytes_of_joining(request: JoinGroupRequest, *client: str) -> int:
    """Returns the memory of a member after a JoinGroup."""
    ids = length(request.group_id, request.member_id, request.group_instance_id, *client)
    metadata = bytes_of_protocols((it.name, it.metadata) for it in request.protocols)
    return MEMBER_OVERHEAD_BYTES + ids + len(request.protocol_type) + metadata


def bytes_of_names(names: Iterable[str]) -> int:
    return sum(NAME_OVERHEAD_BYTES + len(name) for name in names)


def bytes_of_heartbeat(request: ConsumerGroupHeartbeatRequest, *client: str) -> int:
    """Returns the memory of a consumer member after a heartbeat with a subscription."""
    ids = length(request.group_id, request.member_id, request.instance_id, request.rack_id, *client)
    names = bytes_of_names(request.subscribed_topic_names or ())
    return MEMBER_OVERHEAD_BYTES + ids + names + length(request.subscribed_topic_regex)


def bytes_of_consumer_member(member: ConsumerMember) -> int:
    ids = length(member.member_id, member.instance_id, member.rack_id)
    classic = 0
    if member.classic is not None:
        protocols = member.classic.supported_protocols
        classic = bytes_of_protocols((it.name, it.metadata) for it in protocols)
    client = length(member.client_id, member.client_host, member.topic_regex)
    return MEMBER_OVERHEAD_BYTES + ids + client + bytes_of_names(member.topic_names) + classic
