"""A heartbeat of the next-generation protocol: it joins, keeps alive, reports and brings news.

One that makes a new assignment due is heard at once, and answered when all who have come in at the
same moment are heard, too: many who join together cost one assignment, and get their share of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pykbroker.coordination.groups import consumer_records as records
from pykbroker.coordination.groups.consumer_admission import admit
from pykbroker.coordination.groups.consumer_assignment import assign_if_due
from pykbroker.coordination.groups.consumer_checks import fenced_epoch, identified, unknown_member
from pykbroker.coordination.groups.consumer_decision import REJOIN, REVOCATION, SESSION, SYNC
from pykbroker.coordination.groups.consumer_member import JOINING, ConsumerMember, MemberState
from pykbroker.coordination.groups.consumer_reconciliation import Goal, reconcile
from pykbroker.coordination.groups.consumer_subscription import look_up, take_subscription
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.messages.consumer_group_heartbeat import (
    Assignment as WireAssignment,
)
from pykbroker_protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

if TYPE_CHECKING:
    from pykbroker.coordination.assignors.assignor import Assignment
    from pykbroker.coordination.groups.consumer_decision import Decision
    from pykbroker.coordination.groups.consumer_member import Holding
    from pykbroker.coordination.groups.consumer_memory import Memory


class Unmatched(NamedTuple):
    """A heartbeat has to be decided again once its regular expression is matched."""

    regex: str


class Heard(NamedTuple):
    """A heartbeat whose news is taken in; what is left is the member's next step, and an answer."""

    request: ConsumerGroupHeartbeatRequest
    before: ConsumerMember
    """The member as the request found it."""
    subscription_changed: bool


def hear(
    decision: Decision,
    memory: Memory,
    request: ConsumerGroupHeartbeatRequest,
    *,
    client_id: str,
    client_host: str,
) -> Heard | Refusal | Unmatched:
    """Take a well-formed heartbeat of a member that joins or stays; the member id is not empty."""
    before = speaker(decision, request)
    if isinstance(before, Refusal):
        return before
    after = told(before, request, client_id=client_id, client_host=client_host)
    if (verdict := verdict_on_regex(decision, before, after.topic_regex)) is not None:
        return verdict
    subscription_changed = take_subscription(decision, memory, before, after)
    decision.set_timer(SESSION, after.member_id, after_ms=decision.settings.session_timeout_ms)
    if before.classic is not None:
        decision.cancel_timer(REJOIN, after.member_id)
        decision.cancel_timer(SYNC, after.member_id)
    return Heard(request, before, subscription_changed)


def answer(decision: Decision, heard: Heard) -> ConsumerGroupHeartbeatResponse:
    """Bring the member on, and tell it where it stands."""
    member = decision.state.members.get(heard.before.member_id)
    if member is None or member.is_away:  # it was removed, or has left, while it waited
        return refuse(unknown_member(decision.group_id, heard.before.member_id))
    has_moved_on = member.place != heard.before.place  # it does not say what it owns by now
    owned = None if has_moved_on else owned_partitions(heard.request, member)
    told_now = take_step(decision, member, owned, subscription_changed=heard.subscription_changed)
    return ConsumerGroupHeartbeatResponse(
        error_code=ErrorCode.NONE,
        member_id=told_now.member_id,
        member_epoch=told_now.epoch,
        heartbeat_interval_ms=decision.settings.heartbeat_interval_ms,
        assignment=news(heard.request, heard.before, told_now),
    )


def refuse(refusal: Refusal) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        error_code=refusal.code,
        error_message=refusal.message or refusal.code.sentence,
        member_epoch=0,
        heartbeat_interval_ms=0,
    )


def speaker(decision: Decision, request: ConsumerGroupHeartbeatRequest) -> ConsumerMember | Refusal:
    if request.member_epoch == JOINING:
        # A member that is known and starts afresh is let in at any epoch: it owns nothing now.
        return admit(decision, request.member_id, request.instance_id)
    member = identified(decision.state, request.member_id, request.instance_id)
    if isinstance(member, Refusal):
        return member
    if request.member_epoch == member.epoch:
        return member
    owned = owned_partitions(request, member)
    return fenced_epoch(member, request.member_epoch, owned) or member


def told(
    member: ConsumerMember,
    request: ConsumerGroupHeartbeatRequest,
    *,
    client_id: str,
    client_host: str,
) -> ConsumerMember:
    """The member with what the request says; what it leaves out stays as it was."""
    comes_from = (member.client_id, member.client_host)
    if (
        is_sign_of_life(request)
        and member.classic is None
        and comes_from == (client_id, client_host)
    ):
        return member
    names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    timeout_ms = request.rebalance_timeout_ms
    return member._replace(
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        topic_names=member.topic_names if names is None else frozenset(names),
        topic_regex=member.topic_regex if regex is None else regex,
        server_assignor=request.server_assignor or member.server_assignor,
        client_id=client_id,
        client_host=client_host,
        classic=None,
    )


def is_sign_of_life(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Most heartbeats say nothing of what the member wants; its name is known already."""
    return (
        request.subscribed_topic_names is None
        and request.subscribed_topic_regex is None
        and request.rebalance_timeout_ms == -1
        and request.server_assignor is None
        and request.rack_id is None
    )


def verdict_on_regex(
    decision: Decision, before: ConsumerMember, regex: str
) -> Refusal | Unmatched | None:
    """A regular expression that is new to the group is compiled and matched before it counts."""
    if not regex or regex in decision.state.regexes:
        return None
    words = refusal_of_another_regex(decision, before)
    if not words:
        found = look_up(decision, regex)
        if found is None:
            return Unmatched(regex)
        words = found.refusal
    if not words:
        return None
    decision.draft.add_reason(f"group {decision.group_id}: regular expression refused: {words}")
    return Refusal(
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {words}.",
    )


def refusal_of_another_regex(decision: Decision, before: ConsumerMember) -> str:
    """The expression that the member used before is not counted: it may be its only user."""
    used = {wish.topic_regex for wish in decision.state.tallies.wishes}
    count, count_max = len(used - {"", before.topic_regex}), decision.settings.regexes_max
    if count < count_max:
        return ""
    return (
        f"the group uses {count} other expressions, and group.consumer.max.regexes allows "
        f"{count_max}"
    )


def owned_partitions(
    request: ConsumerGroupHeartbeatRequest, member: ConsumerMember
) -> Assignment | None:
    """What the member says it owns. Of topics that it was never given, one stands for all."""
    if request.topic_partitions is None:
        return None
    owned, is_foreign = dict[bytes, frozenset[int]](), False
    for topic in request.topic_partitions:
        if topic.topic_id in member.assigned or topic.topic_id in member.revoking:
            owned[topic.topic_id] = frozenset(topic.partitions)
        elif topic.partitions and not is_foreign:
            owned[topic.topic_id] = frozenset(topic.partitions)
            is_foreign = True
    return owned


def bring_on(
    decision: Decision,
    memory: Memory,
    before: ConsumerMember,
    after: ConsumerMember,
    owned: Assignment | None,
) -> ConsumerMember:
    """Write down what follows from a member's words, at once; the member as it stands then."""
    subscription_changed = take_subscription(decision, memory, before, after)
    assign_if_due(decision, memory)
    return take_step(decision, after, owned, subscription_changed=subscription_changed)


def take_step(
    decision: Decision,
    member: ConsumerMember,
    owned: Assignment | None,
    *,
    subscription_changed: bool,
) -> ConsumerMember:
    """Lead a member towards its target."""
    state = decision.state
    if member.has_reached(state.assignment_epoch) and not subscription_changed:
        return member  # as most have, most of the time
    stepped = reconcile(
        member,
        Goal(
            epoch=state.assignment_epoch,
            target=subscribed_target(decision, member),
            owned=owned,
            subscription_changed=subscription_changed,
            is_free=lambda topic_id, partition: state.is_free_for(
                member.member_id, topic_id, partition
            ),
        ),
    )
    if stepped is not member:
        note_progress(decision, stepped)
    return stepped


def subscribed_target(decision: Decision, member: ConsumerMember) -> Assignment:
    """Without topics that were deleted, or to which the member no longer subscribes."""
    names = decision.state.topic_names_of(member)
    return {
        topic_id: partitions
        for topic_id, partitions in decision.state.target_of(member.member_id).items()
        if (topic := decision.topics.topic_of_id(topic_id)) is not None and topic.name in names
    }


def note_progress(decision: Decision, member: ConsumerMember) -> None:
    decision.write(records.progress(decision.group_id, member))
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        decision.set_timer(REVOCATION, member.member_id, after_ms=member.rebalance_timeout_ms)
    else:
        decision.cancel_timer(REVOCATION, member.member_id)


def news(
    request: ConsumerGroupHeartbeatRequest, before: ConsumerMember, after: ConsumerMember
) -> WireAssignment | None:
    """The assignment, if it has changed or if the member has told everything of itself."""
    is_full_request = (
        request.rebalance_timeout_ms != -1
        and (request.subscribed_topic_names, request.subscribed_topic_regex) != (None, None)
        and request.topic_partitions is not None
    )
    is_asked_for = request.member_epoch == JOINING or is_full_request
    return as_wire(after.assigned) if is_asked_for or after.assigned != before.assigned else None


def as_wire(holding: Holding) -> WireAssignment:
    return WireAssignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in holding.items()
        ]
    )
