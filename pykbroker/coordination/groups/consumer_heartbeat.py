"""ConsumerGroupHeartbeat: joins a member, renews its session and reconciles its assignment.

A heartbeat that requires a new assignment is accepted immediately and answered after all requests
of the same event loop iteration. Members that join together therefore share one computation.
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
    from pykbroker.coordination.groups.consumer_cache import GroupCache
    from pykbroker.coordination.groups.consumer_decision import Decision
    from pykbroker.coordination.groups.consumer_member import Holding


class Unmatched(NamedTuple):
    """The regular expression must be matched; then the heartbeat is decided again."""

    regex: str


class Accepted(NamedTuple):
    """A heartbeat whose changes are written; reconciliation and response remain."""

    request: ConsumerGroupHeartbeatRequest
    before: ConsumerMember
    """The member before the request."""
    subscription_changed: bool


def accept(
    decision: Decision,
    cache: GroupCache,
    request: ConsumerGroupHeartbeatRequest,
    *,
    client_id: str,
    client_host: str,
) -> Accepted | Refusal | Unmatched:
    """Writes the changes of a well-formed heartbeat of a joining or existing member."""
    before = member_of(decision, request)
    if isinstance(before, Refusal):
        return before
    after = updated_member(before, request, client_id=client_id, client_host=client_host)
    if (verdict := check_regex(decision, before, after.topic_regex)) is not None:
        return verdict
    subscription_changed = take_subscription(decision, cache, before, after)
    decision.set_timer(SESSION, after.member_id, after_ms=decision.settings.session_timeout_ms)
    if before.classic is not None:
        decision.cancel_timer(REJOIN, after.member_id)
        decision.cancel_timer(SYNC, after.member_id)
    return Accepted(request, before, subscription_changed)


def answer(decision: Decision, accepted: Accepted) -> ConsumerGroupHeartbeatResponse:
    """Reconciles the member and returns its response."""
    member = decision.state.members.get(accepted.before.member_id)
    if member is None or member.is_away:  # removed, or left, while the heartbeat was parked
        return refuse(unknown_member(decision.group_id, accepted.before.member_id))
    is_outdated = member.reconciliation_state != accepted.before.reconciliation_state
    owned = None if is_outdated else owned_partitions(accepted.request, member)
    reconciled = reconcile_once(
        decision, member, owned, subscription_changed=accepted.subscription_changed
    )
    return ConsumerGroupHeartbeatResponse(
        error_code=ErrorCode.NONE,
        member_id=reconciled.member_id,
        member_epoch=reconciled.epoch,
        heartbeat_interval_ms=decision.settings.heartbeat_interval_ms,
        assignment=assignment_to_send(accepted.request, accepted.before, reconciled),
    )


def refuse(refusal: Refusal) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        error_code=refusal.code,
        error_message=refusal.message or refusal.code.sentence,
        member_epoch=0,
        heartbeat_interval_ms=0,
    )


def member_of(
    decision: Decision, request: ConsumerGroupHeartbeatRequest
) -> ConsumerMember | Refusal:
    if request.member_epoch == JOINING:
        # A known member may rejoin at any epoch, because it owns no partitions then.
        return admit(decision, request.member_id, request.instance_id)
    member = identified(decision.state, request.member_id, request.instance_id)
    if isinstance(member, Refusal):
        return member
    if request.member_epoch == member.epoch:
        return member
    owned = owned_partitions(request, member)
    return fenced_epoch(member, request.member_epoch, owned) or member


def updated_member(
    member: ConsumerMember,
    request: ConsumerGroupHeartbeatRequest,
    *,
    client_id: str,
    client_host: str,
) -> ConsumerMember:
    """Returns the member with the fields of the request; omitted fields are unchanged."""
    is_same_client = (member.client_id, member.client_host) == (client_id, client_host)
    if is_keep_alive(request) and member.classic is None and is_same_client:
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


def is_keep_alive(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Returns whether the request has no subscription fields, like most heartbeats."""
    return (
        request.subscribed_topic_names is None
        and request.subscribed_topic_regex is None
        and request.rebalance_timeout_ms == -1
        and request.server_assignor is None
        and request.rack_id is None
    )


def check_regex(
    decision: Decision, before: ConsumerMember, regex: str
) -> Refusal | Unmatched | None:
    """Compiles and matches a regular expression that is new to the group."""
    if not regex or regex in decision.state.regexes:
        return None
    reason = refusal_of_another_regex(decision, before)
    if not reason:
        found = look_up(decision, regex)
        if found is None:
            return Unmatched(regex)
        reason = found.refusal
    if not reason:
        return None
    decision.draft.add_reason(f"group {decision.group_id}: regular expression refused: {reason}")
    return Refusal(
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {reason}.",
    )


def refusal_of_another_regex(decision: Decision, before: ConsumerMember) -> str:
    """Checks the limit; the member's previous expression does not count."""
    used = {inputs.topic_regex for inputs in decision.state.counts.assignment_inputs}
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
    """Returns the reported partitions. Of topics that the member does not own, one is enough."""
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


def update_and_reconcile(
    decision: Decision,
    cache: GroupCache,
    before: ConsumerMember,
    after: ConsumerMember,
    owned: Assignment | None,
) -> ConsumerMember:
    """Writes the changes of a classic member and reconciles it; returns the new state."""
    subscription_changed = take_subscription(decision, cache, before, after)
    assign_if_due(decision, cache)
    return reconcile_once(decision, after, owned, subscription_changed=subscription_changed)


def reconcile_once(
    decision: Decision,
    member: ConsumerMember,
    owned: Assignment | None,
    *,
    subscription_changed: bool,
) -> ConsumerMember:
    """Reconciles a member by one step towards its target."""
    state = decision.state
    if member.has_reached(state.assignment_epoch) and not subscription_changed:
        return member  # the most common case
    reconciled = reconcile(
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
    if reconciled is not member:
        write_current_assignment(decision, reconciled)
    return reconciled


def subscribed_target(decision: Decision, member: ConsumerMember) -> Assignment:
    """Returns the target without deleted topics and topics that are no longer subscribed."""
    names = decision.state.topic_names_of(member)
    return {
        topic_id: partitions
        for topic_id, partitions in decision.state.target_of(member.member_id).items()
        if (topic := decision.topics.topic_of_id(topic_id)) is not None and topic.name in names
    }


def write_current_assignment(decision: Decision, member: ConsumerMember) -> None:
    decision.write(records.current_assignment(decision.group_id, member))
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        decision.set_timer(REVOCATION, member.member_id, after_ms=member.rebalance_timeout_ms)
    else:
        decision.cancel_timer(REVOCATION, member.member_id)


def assignment_to_send(
    request: ConsumerGroupHeartbeatRequest, before: ConsumerMember, after: ConsumerMember
) -> WireAssignment | None:
    """Returns the assignment if it changed or the request has all fields, else None."""
    is_full_request = (
        request.rebalance_timeout_ms != -1
        and (request.subscribed_topic_names, request.subscribed_topic_regex) != (None, None)
        and request.topic_partitions is not None
    )
    must_send = request.member_epoch == JOINING or is_full_request
    return as_wire(after.assigned) if must_send or after.assigned != before.assigned else None


def as_wire(holding: Holding) -> WireAssignment:
    return WireAssignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in holding.items()
        ]
    )
