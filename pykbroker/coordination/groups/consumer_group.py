"""A consumer group of KIP-848: dispatches requests and timers to the `consumer_*` modules.

Members report subscriptions and owned partitions in heartbeats. The coordinator computes the target
assignment and reconciles each member in small steps. Decisions return outcomes; replay changes the
state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.coordination.groups import consumer_classic_members as classic_members
from pykbroker.coordination.groups import consumer_commits as commits
from pykbroker.coordination.groups import consumer_records as records
from pykbroker.coordination.groups.consumer_assignment import (
    AssignmentTask,
    assignment_is_due,
    continue_assignment,
)
from pykbroker.coordination.groups.consumer_cache import GroupCache
from pykbroker.coordination.groups.consumer_checks import malformed
from pykbroker.coordination.groups.consumer_decision import (
    ASSIGNMENT,
    MATCHING,
    NEXT_STEPS,
    REVOCATION,
    SESSION,
    Decision,
)
from pykbroker.coordination.groups.consumer_departure import fence, leave
from pykbroker.coordination.groups.consumer_describe import describe
from pykbroker.coordination.groups.consumer_heartbeat import Unmatched, accept, answer, refuse
from pykbroker.coordination.groups.consumer_member import JOINING, ConsumerMember, MemberState
from pykbroker.coordination.groups.consumer_migration import upgrade
from pykbroker.coordination.groups.consumer_state import ConsumerGroupState
from pykbroker.coordination.groups.consumer_subscription import apply_match
from pykbroker.coordination.groups.draft import Draft
from pykbroker.coordination.groups.group import GroupKind
from pykbroker.coordination.groups.member_bytes import bytes_of_consumer_member
from pykbroker.coordination.outcome import Outcome, Reply
from pykbroker_protocol.consumer_protocol import CONSUMER_PROTOCOL_TYPE
from pykbroker_protocol.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from pykbroker.coordination.groups.classic_group import ClassicGroup
    from pykbroker.coordination.groups.classic_member import JoinContext
    from pykbroker.coordination.groups.consumer_heartbeat import Accepted
    from pykbroker.coordination.groups.consumer_matching import Arrived, Matched
    from pykbroker.coordination.groups.consumer_settings import ConsumerGroupSettings
    from pykbroker.coordination.groups.consumer_topics import TopicsView
    from pykbroker.coordination.outcome import Ticket, Write
    from pykbroker_protocol.message import Message
    from pykbroker_protocol.messages.consumer_group_describe import DescribedGroup
    from pykbroker_protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
    from pykbroker_protocol.messages.heartbeat import HeartbeatRequest
    from pykbroker_protocol.messages.leave_group import LeaveGroupRequest
    from pykbroker_protocol.messages.sync_group import SyncGroupRequest


ANSWERING_EFFORT = 500
"""Partitions of members that get responses in one slice: 2 to 5 ms."""
MEMBER_EFFORT = 10
"""Cost of one member, in partitions."""


class ConsumerGroup:
    """A consumer group; `state` is replayed from the log, `cache` may be lost."""

    kind = GroupKind.CONSUMER
    protocol_type = CONSUMER_PROTOCOL_TYPE

    def __init__(self, group_id: str) -> None:
        self.state = ConsumerGroupState(group_id)
        self.cache = GroupCache()
        self.assignment_task: AssignmentTask | None = None
        """Computation of a new target that takes several slices."""

    # --- replay

    def replay(self, key: Message, value: Message | None) -> None:
        """Replays a record of types 3 to 8 or 16; the caller removes a deleted group."""
        self.state.replay(key, value)

    def loaded(self, *, now_ms: int, settings: ConsumerGroupSettings) -> Outcome:
        """Returns the timers of a loaded group, all restarted."""
        draft = Draft(now_ms)
        for member in self.state.members.values():
            name = (self.group_id, member.member_id)
            draft.set_timer(SESSION, *name, after_ms=session_timeout_ms(member, settings))
            if member.state is MemberState.UNREVOKED_PARTITIONS:
                draft.set_timer(REVOCATION, *name, after_ms=member.rebalance_timeout_ms)
        return draft.outcome()

    # --- members of the consumer protocol

    def heartbeat(
        self,
        arrived: Arrived,
        *,
        now_ms: int,
        topics: TopicsView,
        settings: ConsumerGroupSettings,
        let_wait: Callable[[Ticket, Accepted], None],
        let_match: Callable[[Arrived, str], None],
        matched: Mapping[str, Matched],
        upgraded_from: ClassicGroup | None = None,
    ) -> Outcome:
        """Answers or parks a heartbeat; `new_member_id` is for clients that do not choose one.

        A heartbeat that joins a new group converts an existing classic group. If its regular
        expression is not `matched`, nothing changes and the heartbeat is decided again later.
        """
        request, ticket = arrived.request, arrived.ticket
        decision = Decision(self.state, now_ms=now_ms, topics=topics, settings=settings)
        decision.matched.update(matched)
        response = malformed(request, arrived.version, settings)
        if response is None and upgraded_from is not None:
            response = upgrade(decision, upgraded_from)
        if response is not None:
            return refused(ticket, response)
        if request.member_epoch < JOINING:
            left = leave(decision, self.cache, request)
            if isinstance(left, Refusal):
                return refused(ticket, left)
            return decision.answer(ticket, left)
        accepted = accept(
            decision,
            self.cache,
            request if request.member_id else request.replace(member_id=arrived.new_member_id),
            client_id=arrived.client_id,
            client_host=arrived.client_host,
        )
        if isinstance(accepted, Refusal):
            is_logged = (
                accepted.code is ErrorCode.INVALID_REGULAR_EXPRESSION
            )  # a limit may be reached
            return refused(ticket, accepted, decision.draft.reasons[-1:] if is_logged else ())
        if isinstance(accepted, Unmatched):
            let_match(arrived, accepted.regex)
            decision = Decision(self.state, now_ms=now_ms, topics=topics, settings=settings)
            decision.draft.defer(MATCHING, deferred_tickets=(ticket,))
        elif assignment_is_due(decision):
            let_wait(ticket, accepted)
            decision.draft.defer(ASSIGNMENT, self.group_id, deferred_tickets=(ticket,))
        else:
            decision.draft.reply(ticket, answer(decision, accepted))
        return decision.draft.outcome()

    def apply_match(
        self,
        regex: str,
        found: Matched,
        *,
        now_ms: int,
        topics: TopicsView,
        settings: ConsumerGroupSettings,
    ) -> Outcome:
        """Applies a new match of a known regular expression after topics changed."""
        decision = Decision(self.state, now_ms=now_ms, topics=topics, settings=settings)
        apply_match(decision, self.cache, regex, found)
        return decision.draft.outcome()

    def run_assignment_slice(
        self,
        waiting: Iterable[Ticket],
        *,
        now_ms: int,
        topics: TopicsView,
        settings: ConsumerGroupSettings,
    ) -> Outcome:
        """Works for one slice on a new target for waiting heartbeats, if one is due.

        If the log ends within a target, its epoch record is missing: it is due and computed again.
        """
        decision = Decision(self.state, now_ms=now_ms, topics=topics, settings=settings)
        decision.draft.in_parts = True
        self.assignment_task = continue_assignment(decision, self.cache, self.assignment_task)
        what_follows = NEXT_STEPS if self.assignment_task is None else ASSIGNMENT
        decision.draft.defer(what_follows, self.group_id, deferred_tickets=waiting)
        return decision.draft.outcome()

    def members_of_a_slice(self, waiting: Mapping[Ticket, Accepted]) -> int:
        """Returns how many of the waiting heartbeats get responses in one slice."""
        partitions_of, effort = self.state.counts.target_sizes, 0
        for count, accepted in enumerate(waiting.values(), 1):
            effort += MEMBER_EFFORT + partitions_of.get(accepted.before.member_id, 0)
            if effort > ANSWERING_EFFORT:
                return count
        return len(waiting)

    def answer(
        self,
        waiting: Mapping[Ticket, Accepted],
        *,
        later: Collection[Ticket],
        now_ms: int,
        topics: TopicsView,
        settings: ConsumerGroupSettings,
    ) -> Outcome:
        """Reconciles the members of waiting heartbeats; the records may be written in parts.

        Heartbeats in `later` are left to the next slice.
        """
        decision = Decision(self.state, now_ms=now_ms, topics=topics, settings=settings)
        decision.draft.in_parts = True
        for ticket, accepted in waiting.items():
            decision.draft.reply(ticket, answer(decision, accepted))
        if later:
            decision.draft.defer(NEXT_STEPS, self.group_id, deferred_tickets=later)
        return decision.draft.outcome()

    # --- members of the classic protocol

    def join(
        self,
        joining: JoinContext,
        *,
        now_ms: int,
        topics: TopicsView,
        settings: ConsumerGroupSettings,
    ) -> Outcome:
        decision = Decision(self.state, now_ms=now_ms, topics=topics, settings=settings)
        response = classic_members.join(decision, self.cache, joining)
        if response.error_code != ErrorCode.NONE:
            return Outcome(replies=(Reply(joining.ticket, response),))
        return decision.answer(joining.ticket, response)

    def sync(
        self,
        request: SyncGroupRequest,
        *,
        ticket: Ticket,
        now_ms: int,
        topics: TopicsView,
        settings: ConsumerGroupSettings,
    ) -> Outcome:
        decision = Decision(self.state, now_ms=now_ms, topics=topics, settings=settings)
        return decision.answer(ticket, classic_members.sync(decision, self.cache, request))

    def classic_heartbeat(
        self,
        request: HeartbeatRequest,
        *,
        ticket: Ticket,
        now_ms: int,
        topics: TopicsView,
        settings: ConsumerGroupSettings,
    ) -> Outcome:
        decision = Decision(self.state, now_ms=now_ms, topics=topics, settings=settings)
        return decision.answer(ticket, classic_members.heartbeat(decision, self.cache, request))

    def leave(
        self,
        request: LeaveGroupRequest,
        *,
        ticket: Ticket,
        version: int,
        now_ms: int,
        topics: TopicsView,
        settings: ConsumerGroupSettings,
    ) -> Outcome:
        """Removes members of either protocol, on their own or an operator's request."""
        decision = Decision(self.state, now_ms=now_ms, topics=topics, settings=settings)
        response = classic_members.leave(decision, self.cache, request, version)
        return decision.answer(ticket, response)

    # --- timers

    def timer_fired(
        self,
        kind: str,
        member_id: str,
        *,
        now_ms: int,
        topics: TopicsView,
        settings: ConsumerGroupSettings,
    ) -> Outcome:
        """Handles one of `MEMBER_TIMERS`."""
        decision = Decision(self.state, now_ms=now_ms, topics=topics, settings=settings)
        fence(decision, self.cache, kind, member_id)
        return decision.draft.outcome()

    # --- the interface of groups of both protocols

    @property
    def group_id(self) -> str:
        return self.state.group_id

    @property
    def state_name(self) -> str:
        return self.state.state.value

    @property
    def is_empty(self) -> bool:
        return not self.state.members

    @property
    def member_bytes(self) -> int:
        return self.state.counts.member_bytes

    def bytes_of_member(self, member_id: str, instance_id: str | None) -> int:
        owner_id = self.state.instances.get(instance_id or "", member_id)
        member = self.state.members.get(owner_id)
        return 0 if member is None else bytes_of_consumer_member(member)

    def describe(self, *, topics: TopicsView, settings: ConsumerGroupSettings) -> DescribedGroup:
        return describe(self.state, topics, settings)

    def refusal_of_commit(
        self,
        *,
        member_id: str,
        instance_id: str | None,
        generation: int,
        transactional: bool,
        version: int,
        committed_partitions: Sequence[tuple[bytes, int]] | None = None,
    ) -> ErrorCode:
        """Checks a commit; `committed_partitions` are topic ids and partitions, if known.

        A member with an older epoch may commit partitions that it had then and still has.
        """
        return commits.refusal_of_commit(
            self.state,
            commits.Committer(
                member_id=member_id,
                instance_id=instance_id,
                epoch=generation,
                is_transactional=transactional,
                version=version,
            ),
            committed_partitions,
        )

    def refusal_of_fetch(self, *, member_id: str | None, member_epoch: int) -> ErrorCode:
        return commits.refusal_of_fetch(self.state, member_id, member_epoch)

    def refusal_of_offset_deletion(self) -> ErrorCode:
        """Allows deletion of offsets; offsets of subscribed topics are kept (`reads_topic`)."""
        return ErrorCode.NONE

    def refusal_of_deletion(self) -> ErrorCode:
        return ErrorCode.NONE if self.is_empty else ErrorCode.NON_EMPTY_GROUP

    def reads_topic(self, topic: str) -> bool:
        return self.state.reads_topic(topic)

    def offset_ages_from_ms(self, commit_timestamp_ms: int) -> int | None:
        return commit_timestamp_ms

    def tombstones(self) -> Sequence[Write]:
        return records.without_group(self.group_id, list(self.state.members), self.state.regexes)


def session_timeout_ms(member: ConsumerMember, settings: ConsumerGroupSettings) -> int:
    if member.classic is None:
        return settings.session_timeout_ms
    return member.classic.session_timeout_ms


def refused(ticket: Ticket, refusal: Refusal, reasons: Iterable[str] = ()) -> Outcome:
    """Returns an error without a change; the reasons are logged."""
    return Outcome(replies=(Reply(ticket, refuse(refusal)),), reasons=tuple(reasons))


def refuse_heartbeat_without_group(
    request: ConsumerGroupHeartbeatRequest,
    *,
    ticket: Ticket,
    version: int,
    is_classic: bool,
    settings: ConsumerGroupSettings,
) -> Outcome:
    """Returns the error for a heartbeat that does not join an unknown or classic group."""
    if refusal := malformed(request, version, settings):
        return refused(ticket, refusal)
    kind = "Group" if is_classic or request.member_epoch < JOINING else "Consumer group"
    words = "is not a consumer group" if is_classic else "not found"
    return refused(
        ticket,
        Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"{kind} {request.group_id} {words}."),
    )
