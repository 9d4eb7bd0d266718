"""Converts a group between the classic and the consumer protocol while it has members.

A group is upgraded when the first member of the consumer protocol joins, and downgraded when the
last one leaves. One batch removes the records of the old group and writes those of the new one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.coordination.groups import consumer_classic_protocol as classic
from pykbroker.coordination.groups import consumer_records as records
from pykbroker.coordination.groups.classic_rebalance import JOIN_TIMER, SESSION_TIMER, SYNC_TIMER
from pykbroker.coordination.groups.classic_responses import refused_join, refused_sync
from pykbroker.coordination.groups.consumer_decision import (
    DOWNGRADED,
    MEMBER_TIMERS,
    SESSION,
    Decision,
)
from pykbroker.coordination.groups.consumer_member import ConsumerMember, numbers
from pykbroker.coordination.groups.consumer_topics import fingerprint
from pykbroker.coordination.outcome import Write
from pykbroker_protocol.compiler import MalformedMessage
from pykbroker_protocol.consumer_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    ConsumerProtocolAssignment,
    read_subscription,
    read_version,
)
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.internal_topics.classic_groups import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from pykbroker_protocol.internal_topics.consumer_groups import (
    ClassicMemberMetadata,
    ClassicProtocol,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from pykbroker.coordination.groups.classic_group import ClassicGroup
    from pykbroker.coordination.groups.classic_member import Member
    from pykbroker.coordination.groups.consumer_settings import ConsumerGroupSettings
    from pykbroker.coordination.groups.consumer_state import ConsumerGroupState
    from pykbroker.coordination.groups.consumer_topics import TopicsView

GROUP_METADATA_VERSION = 3
"""Record version in which Apache Kafka 4 writes classic groups."""


# Upgrade


def refused_upgrade(group: ClassicGroup, settings: ConsumerGroupSettings) -> Refusal | None:
    """Returns the error if the group cannot be upgraded; one without members always can."""
    if not group.members:
        return None
    if not settings.migration_policy.allows_upgrade:
        return cannot_upgrade(group, "online upgrade is disabled")
    if group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return cannot_upgrade(group, "the group does not use the consumer embedded protocol")
    if len(group.members) >= settings.members_max:
        return cannot_upgrade(
            group,
            "the group size exceeds the consumer group maximum size; "
            f"the maximum is {settings.members_max}",
        )
    return None


def cannot_upgrade(group: ClassicGroup, why: str) -> Refusal:
    return Refusal(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {group.group_id} to consumer group because {why}.",
    )


def upgrade(decision: Decision, group: ClassicGroup) -> Refusal | None:
    """Converts a classic group; the decision continues with the resulting group."""
    if refusal := refused_upgrade(group, decision.settings):
        return refusal
    try:
        members = [converted_member(it, group, decision.topics) for it in group.members.values()]
    except MalformedMessage as error:
        return cannot_upgrade(group, f"the subscription of a member cannot be decoded: {error}")
    remove_classic_group(group, decision)
    if members:
        write_converted(decision, group, members)
    return None


def remove_classic_group(group: ClassicGroup, decision: Decision) -> None:
    """Removes the classic group; parked requests get REBALANCE_IN_PROGRESS."""
    draft = decision.draft
    draft.write(group.tombstones())
    code = ErrorCode.REBALANCE_IN_PROGRESS
    for member in group.members.values():
        draft.reply(member.join_ticket, refused_join(code, member.member_id))
        draft.reply(member.sync_ticket, refused_sync(code))
    for member_id in (*group.members, *group.pending):
        draft.cancel_timer(SESSION_TIMER, group.group_id, member_id)
    for kind in (JOIN_TIMER, SYNC_TIMER):
        draft.cancel_timer(kind, group.group_id)


def write_converted(decision: Decision, group: ClassicGroup, members: list[ConsumerMember]) -> None:
    group_id, generation = group.group_id, group.generation
    held = {it.member_id: numbers(it.assigned) for it in members}
    decision.write(
        *(records.subscription(group_id, it) for it in members),
        records.group_epoch(
            group_id,
            generation,
            fingerprint({it.topic_names for it in members}, decision.topics),
        ),
        *(records.target(group_id, it, held[it]) for it in held),
        records.assignment_epoch(group_id, generation, 0),
        *(records.current_assignment(group_id, it) for it in members),
    )
    for member in group.members.values():
        decision.set_timer(SESSION, member.member_id, after_ms=member.session_timeout_ms)
    decision.draft.add_reason(
        f"group {group_id}: converted to the consumer protocol (classic members: {len(members)})"
    )


def converted_member(member: Member, group: ClassicGroup, topics: TopicsView) -> ConsumerMember:
    """Converts a member; its last assignment becomes its target, which it has reached."""
    first_protocol = next(iter(member.protocols.values()))
    chosen = member.protocols.get(group.protocol or "", first_protocol)
    subscription = read_subscription(chosen)
    generation = group.generation
    assigned = classic.read_assignment(member.assignment, topics)
    return ConsumerMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topic_names=frozenset(subscription.topics),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=classic_metadata(member.session_timeout_ms, member.protocols.items()),
        epoch=generation,
        previous_epoch=generation,
        assigned={it: dict.fromkeys(sorted(assigned[it]), generation) for it in assigned},
    )


def classic_metadata(
    session_timeout_ms: int, protocols: Iterable[tuple[str, bytes]]
) -> ClassicMemberMetadata:
    return ClassicMemberMetadata(
        session_timeout_ms=session_timeout_ms,
        supported_protocols=[ClassicProtocol(name=name, metadata=data) for name, data in protocols],
    )


# Downgrade


def is_due_for_downgrade(
    state: ConsumerGroupState, leaving: Collection[str], settings: ConsumerGroupSettings
) -> bool:
    staying = [it for it in state.members.values() if it.member_id not in leaving]
    return (
        0 < len(staying) <= settings.classic_members_max
        and all(it.classic is not None for it in staying)
        and settings.migration_policy.allows_downgrade
    )


def downgrade(decision: Decision, leaving: Collection[str], *, rebalances: bool) -> None:
    """Converts the group to a classic one with the staying members.

    Partitions of other members are unassigned until the group has rebalanced. The record has no
    leader then, so that after a crash the loaded group rebalances, too.
    """
    state, group_id = decision.state, decision.group_id
    staying = [it for it in state.members.values() if it.member_id not in leaving]
    leader = None if rebalances else staying[0].member_id
    classic_group = as_classic_group(state, staying, leader, decision)
    decision.draft.write(records.without_group(group_id, list(state.members), state.regexes))
    decision.draft.write([classic_group])
    for member_id in state.members:
        for kind in MEMBER_TIMERS:
            decision.cancel_timer(kind, member_id)
    for member in staying:
        assert member.classic is not None
        decision.set_timer(
            SESSION_TIMER, member.member_id, after_ms=member.classic.session_timeout_ms
        )
    if rebalances:
        decision.draft.defer(DOWNGRADED, group_id)
    decision.draft.add_reason(
        f"group {group_id}: converted to the classic protocol (only classic members remain)"
    )


def as_classic_group(
    state: ConsumerGroupState,
    members: list[ConsumerMember],
    leader: str | None,
    decision: Decision,
) -> Write:
    protocol = shared_protocol(members)
    value = GroupMetadataValue(
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        generation=state.epoch,
        protocol=protocol,
        leader=leader,
        current_state_timestamp=decision.now_ms,
        members=[as_classic_member(it, protocol, state, decision.topics) for it in members],
    )
    return Write(GroupMetadataKey(group=state.group_id), value, GROUP_METADATA_VERSION)


def shared_protocol(members: list[ConsumerMember]) -> str:
    """Returns a protocol that all members support; joins have checked that one exists."""
    offered = [[it.name for it in protocols_of(member)] for member in members]
    return next(
        (name for name in offered[0] if all(name in names for names in offered)), offered[0][0]
    )


def protocols_of(member: ConsumerMember) -> Sequence[ClassicProtocol]:
    assert member.classic is not None
    return member.classic.supported_protocols


def as_classic_member(
    member: ConsumerMember, protocol: str, state: ConsumerGroupState, topics: TopicsView
) -> MemberMetadata:
    assert member.classic is not None
    protocols = {it.name: bytes(it.metadata) for it in protocols_of(member)}
    subscription = protocols.get(protocol, next(iter(protocols.values())))
    return MemberMetadata(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.classic.session_timeout_ms,
        subscription=subscription,
        assignment=classic.write_assignment(
            state.target_of(member.member_id),
            topics,
            read_version(subscription, ConsumerProtocolAssignment),
        ),
    )
