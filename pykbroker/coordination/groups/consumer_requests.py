"""The consumer groups in one partition of `__consumer_offsets`, and their waiting heartbeats.

Shares the table of groups with `registry`. Handles a group id if it is a consumer group, or if a
heartbeat creates one.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from pykbroker.coordination.groups.classic_group import ClassicGroup
from pykbroker.coordination.groups.classic_rebalance import rebalance
from pykbroker.coordination.groups.consumer_checks import unknown_member
from pykbroker.coordination.groups.consumer_decision import (
    ASSIGNMENT,
    DOWNGRADED,
    MATCHING,
    MEMBER_TIMERS,
    NEXT_STEPS,
)
from pykbroker.coordination.groups.consumer_describe import describe_missing
from pykbroker.coordination.groups.consumer_group import (
    ConsumerGroup,
    refuse_heartbeat_without_group,
    refused,
)
from pykbroker.coordination.groups.consumer_matching import Arrived, Matchings
from pykbroker.coordination.groups.consumer_member import JOINING
from pykbroker.coordination.groups.draft import Draft
from pykbroker.coordination.outcome import Outcome, merged
from pykbroker_protocol.internal_topics import consumer_groups as log

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pykbroker.coordination.groups.consumer_heartbeat import Accepted
    from pykbroker.coordination.groups.consumer_matching import Done, Matched
    from pykbroker.coordination.groups.consumer_settings import ConsumerGroupSettings
    from pykbroker.coordination.groups.consumer_topics import TopicsView
    from pykbroker.coordination.groups.group import Group
    from pykbroker.coordination.groups.settings import GroupSettings
    from pykbroker.coordination.outcome import Ticket
    from pykbroker_protocol.message import Message
    from pykbroker_protocol.messages.consumer_group_describe import DescribedGroup
    from pykbroker_protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

ConsumerGroupKey = (
    log.ConsumerGroupMetadataKey
    | log.ConsumerGroupPartitionMetadataKey
    | log.ConsumerGroupMemberMetadataKey
    | log.ConsumerGroupTargetAssignmentMetadataKey
    | log.ConsumerGroupTargetAssignmentMemberKey
    | log.ConsumerGroupCurrentMemberAssignmentKey
    | log.ConsumerGroupRegularExpressionKey
)


class ConsumerGroups:
    __slots__ = ("assigned", "groups", "matchings", "settings", "unassigned")

    def __init__(self, groups: dict[str, Group], settings: ConsumerGroupSettings) -> None:
        self.groups = groups
        self.settings = settings
        self.unassigned: dict[str, dict[Ticket, Accepted]] = {}
        """By group id: heartbeats that wait for a new target, whose computation is deferred."""
        self.assigned: dict[str, dict[Ticket, Accepted]] = {}
        """By group id: heartbeats whose target is being computed or is written."""
        self.matchings = Matchings()
        """Heartbeats that wait until their regular expression is matched."""

    def find(self, group_id: str) -> ConsumerGroup | None:
        group = self.groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        *,
        ticket: Ticket,
        version: int,
        client_id: str,
        client_host: str,
        new_member_id: str,
        now_ms: int,
        topics: TopicsView,
    ) -> Outcome:
        """Decides a heartbeat; one that joins creates the group or upgrades a classic one."""
        arrived = Arrived(request, ticket, version, client_id, client_host, new_member_id)
        return self._heartbeat(arrived, now_ms=now_ms, topics=topics, matched={})

    def _heartbeat(
        self,
        arrived: Arrived,
        *,
        now_ms: int,
        topics: TopicsView,
        matched: Mapping[str, Matched],
    ) -> Outcome:
        request = arrived.request
        found = self.groups.get(request.group_id)
        classic = found if isinstance(found, ClassicGroup) else None
        group = self.find(request.group_id)
        if group is None and request.member_epoch != JOINING:
            return refuse_heartbeat_without_group(
                request,
                ticket=arrived.ticket,
                version=arrived.version,
                is_classic=classic is not None,
                settings=self.settings,  # the validation does not depend on the group
            )
        return (group or ConsumerGroup(request.group_id)).heartbeat(
            arrived,
            now_ms=now_ms,
            topics=topics,
            settings=self.settings.of(request.group_id),
            let_wait=self._park,
            let_match=self.matchings.wait,
            matched=matched,
            upgraded_from=classic,
        )

    def _park(self, ticket: Ticket, accepted: Accepted) -> None:
        self.unassigned.setdefault(accepted.request.group_id, {})[ticket] = accepted

    def cancel_request(self, group_id: str, ticket: Ticket) -> None:
        """Drops a waiting response. The state change of the request has been applied already.

        A heartbeat whose regular expression is not matched yet has no effect.
        """
        self.matchings.remove(group_id, ticket)
        for waiting in (self.unassigned, self.assigned):
            if group_id in waiting:
                waiting[group_id].pop(ticket, None)
                if not waiting[group_id]:
                    del waiting[group_id]

    def describe(self, group_ids: Iterable[str], *, topics: TopicsView) -> list[DescribedGroup]:
        return [
            group.describe(topics=topics, settings=self.settings)
            if (group := self.find(group_id)) is not None
            else describe_missing(group_id, is_classic=group_id in self.groups)
            for group_id in group_ids
        ]

    def replay(self, key: ConsumerGroupKey, value: Message | None) -> None:
        """Replays a record; the tombstone of the group epoch deletes the group."""
        group = self.find(key.group_id)
        match key, value:
            case log.ConsumerGroupMetadataKey(), None:
                if group is not None:
                    del self.groups[key.group_id]
            case _, None if group is None:
                pass  # compaction has kept a later tombstone of a deleted group
            case _:
                if group is None:
                    group = self.groups[key.group_id] = ConsumerGroup(key.group_id)
                group.replay(key, value)

    def loaded(self, now_ms: int) -> list[Outcome]:
        return [
            group.loaded(now_ms=now_ms, settings=self.settings.of(group.group_id))
            for group in self.groups.values()
            if isinstance(group, ConsumerGroup)
        ]

    def timer(
        self,
        name: tuple[str, ...],
        *,
        now_ms: int,
        topics: TopicsView,
        classic_settings: GroupSettings,
    ) -> Outcome | None:
        """Handles a timer or deferred name of a group that is, or has just been, a consumer group.

        Returns None for names of other groups and of deleted ones.
        """
        match name:
            case (kind, group_id, member_id) if kind in MEMBER_TIMERS:
                group, settings = self.find(group_id), self.settings.of(group_id)
                return (
                    None
                    if group is None
                    else group.timer_fired(
                        kind, member_id, now_ms=now_ms, topics=topics, settings=settings
                    )
                )
            case (kind, group_id) if kind == ASSIGNMENT:
                return self._run_assignment_slice(group_id, now_ms=now_ms, topics=topics)
            case (kind, group_id) if kind == NEXT_STEPS:
                return self._answer(group_id, now_ms=now_ms, topics=topics)
            case (kind, *refreshed) if kind == MATCHING:
                return self._match(refreshed, now_ms=now_ms, topics=topics)
            case (kind, group_id) if kind == DOWNGRADED:
                draft = Draft(now_ms)
                classic = self.groups.get(group_id)
                if isinstance(classic, ClassicGroup):
                    why = "the last member of the consumer protocol has left"
                    rebalance(classic, draft, classic_settings, why)
                return draft.outcome()
        return None

    def _match(self, refreshed: list[str], *, now_ms: int, topics: TopicsView) -> Outcome:
        """Works for one slice, or decides a heartbeat whose expression is matched."""
        if refreshed:
            self.matchings.refresh(*refreshed)
        done = self.matchings.step(topics) if self.matchings else None
        decided = Outcome() if done is None else self._matched(done, now_ms=now_ms, topics=topics)
        return self._continue_matching(decided)

    def _matched(self, done: Done, *, now_ms: int, topics: TopicsView) -> Outcome:
        if done.arrived is not None:
            matched = {done.regex: done.matched}
            return self._heartbeat(done.arrived, now_ms=now_ms, topics=topics, matched=matched)
        group = self.find(done.group_id)
        if group is None:
            return Outcome()
        settings = self.settings.of(done.group_id)
        return group.apply_match(
            done.regex, done.matched, now_ms=now_ms, topics=topics, settings=settings
        )

    def _continue_matching(self, outcome: Outcome) -> Outcome:
        if not self.matchings:
            return outcome
        return outcome.with_deferred((MATCHING,), self.matchings.tickets())

    def _run_assignment_slice(self, group_id: str, *, now_ms: int, topics: TopicsView) -> Outcome:
        """Computes one slice of a target; later heartbeats wait for the next target."""
        group = self.find(group_id)
        if group is None:
            waiting = self.assigned.pop(group_id, {})
            return unknown_members(waiting | self.unassigned.pop(group_id, {}))
        if group.assignment_task is None and group_id in self.unassigned:
            self.assigned.setdefault(group_id, {}).update(self.unassigned.pop(group_id))
        settings = self.settings.of(group_id)
        waits = tuple(self.assigned.get(group_id, ()))
        outcome = group.run_assignment_slice(waits, now_ms=now_ms, topics=topics, settings=settings)
        if group.assignment_task is not None or group_id not in self.unassigned:
            return outcome
        waits = tuple(self.unassigned[group_id])
        return outcome.with_deferred((ASSIGNMENT, group_id), waits)

    def _answer(self, group_id: str, *, now_ms: int, topics: TopicsView) -> Outcome:
        group = self.find(group_id)
        if group is None:
            return unknown_members(self.assigned.pop(group_id, {}))
        if group.assignment_task is not None:
            return Outcome()  # the responses follow after the newer target
        waiting = self.assigned.pop(group_id, {})
        count = group.members_of_a_slice(waiting)
        now, later = (
            dict(islice(waiting.items(), count)),
            dict(islice(waiting.items(), count, None)),
        )
        if later:
            self.assigned[group_id] = later
        settings = self.settings.of(group_id)
        return group.answer(now, later=later, now_ms=now_ms, topics=topics, settings=settings)


def unknown_members(waiting: Mapping[Ticket, Accepted]) -> Outcome:
    """Answers waiting heartbeats of a deleted group with UNKNOWN_MEMBER_ID."""
    return merged(
        refused(ticket, unknown_member(accepted.request.group_id, accepted.before.member_id))
        for ticket, accepted in waiting.items()
    )
