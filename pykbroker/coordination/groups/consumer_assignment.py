"""Computes and writes the target assignment of a consumer group."""

from __future__ import annotations

from collections import Counter
from operator import itemgetter
from typing import TYPE_CHECKING

from pykbroker.coordination.assignors import ASSIGNORS
from pykbroker.coordination.assignors.assignor import Subscriber
from pykbroker.coordination.assignors.uniform import assign_to_new_members, assign_uniform
from pykbroker.coordination.groups import consumer_records as records
from pykbroker.coordination.groups.consumer_cache import NEVER
from pykbroker.coordination.groups.consumer_decision import ASSIGNMENT
from pykbroker.coordination.groups.consumer_topics import known_topics

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pykbroker.coordination.assignors.assignor import Assignment, Steps, TopicToAssign
    from pykbroker.coordination.groups.consumer_cache import GroupCache
    from pykbroker.coordination.groups.consumer_decision import Decision
    from pykbroker.coordination.groups.consumer_settings import ConsumerGroupSettings
    from pykbroker.coordination.groups.consumer_state import ConsumerGroupState
    from pykbroker.coordination.groups.consumer_topics import TopicsView, TopicView


SHARING_EFFORT = 10_000
"""Operations per slice of an assignment: 2 to 5 ms."""
WRITING_EFFORT = 25
"""Operations per topic in a record, which is encoded once and replayed twice."""
SIZE_AT_ONCE_MAX = 20_000
"""Members times topics up to which the decision about a classic member assigns immediately."""


def assignment_is_due(decision: Decision) -> bool:
    """Returns whether the target is older than the group and the assignment interval has passed."""
    state = decision.state
    if state.epoch <= state.assignment_epoch:
        return False
    age_ms = decision.now_ms - state.assigned_at_ms
    return not 0 <= age_ms < decision.settings.assignment_interval_ms


def assign_if_due(decision: Decision, cache: GroupCache) -> None:
    """Assigns for a classic member, which gets its share immediately unless the group is large."""
    if not assignment_is_due(decision):
        return
    if size_of(decision.state, decision.topics) > SIZE_AT_ONCE_MAX:
        decision.draft.defer(ASSIGNMENT, decision.group_id)  # the member rejoins when it is done
        return
    assignment_task = AssignmentTask(decision, cache)
    while not assignment_task.run_slice(decision, cache, SHARING_EFFORT):
        pass


def size_of(state: ConsumerGroupState, topics: TopicsView) -> int:
    return len(state.members) * (1 + len(known_topics(state.subscriptions(), topics)))


def continue_assignment(
    decision: Decision, cache: GroupCache, assignment_task: AssignmentTask | None
) -> AssignmentTask | None:
    """Works on a new target for one slice; returns the unfinished task or None."""
    if assignment_task is not None and assignment_task.epoch <= decision.state.assignment_epoch:
        assignment_task = None  # a decision about a classic member has written a target
    if assignment_task is None and assignment_is_due(decision):
        assignment_task = AssignmentTask(decision, cache)
    if assignment_task is None or assignment_task.run_slice(decision, cache, SHARING_EFFORT):
        return None
    return assignment_task


class AssignmentTask:
    """The computation of a new target for the group as it was at the start.

    The group may change before the target is written. The target then belongs to an earlier
    epoch: members that left are skipped, and a newer target is due.
    """

    __slots__ = ("_at", "_changed", "_has_written", "_instances", "_steps", "_targets", "epoch")

    def __init__(self, decision: Decision, cache: GroupCache) -> None:
        state = decision.state.copy()  # the group changes meanwhile
        self.epoch = state.epoch
        self._instances = {member_id: name for name, member_id in state.instances.items()}
        self._steps = self._compute(
            compute(
                state,
                decision.topics,
                decision.settings,
                targets_are_disjoint=cache.disjoint_at_epoch == state.assignment_epoch,
            )
        )
        self._targets: list[tuple[str, Assignment]] = []
        self._at = 0
        """Index of the next target to write."""
        self._changed: set[str] = set()
        self._has_written = False
        """Whether this pass has written a target; a pass without a write is the last."""

    def _compute(self, steps: Steps[Mapping[str, Assignment]]) -> Steps[None]:
        self._targets = sorted((yield from steps).items(), key=itemgetter(0))

    def run_slice(self, decision: Decision, cache: GroupCache, effort: int) -> bool:
        """Computes or writes until the effort is spent; returns whether all targets are written."""
        for step in self._steps:
            effort -= step
            if effort <= 0:
                return False
        cache.disjoint_at_epoch = NEVER  # meanwhile two members can have the same target partition
        if not self._write(decision, effort):
            return False
        cache.disjoint_at_epoch = self.epoch
        decision.write(records.assignment_epoch(decision.group_id, self.epoch, decision.now_ms))
        decision.draft.add_reason(
            f"group {decision.group_id}: assignment of epoch {self.epoch} "
            f"(members: {len(decision.state.members)}, with a new target: {len(self._changed)})"
        )
        return True

    def _write(self, decision: Decision, effort: int) -> bool:
        """Writes targets; repeats, because writes of an earlier slice may have failed."""
        while True:
            while self._at < len(self._targets):
                if effort <= 0:
                    return False
                effort -= self._write_target(decision, *self._targets[self._at])
                self._at += 1
            if not self._has_written:
                return True
            self._at, self._has_written = 0, False

    def _write_target(self, decision: Decision, member_id: str, target: Assignment) -> int:
        """Writes one target if it changed; returns the effort."""
        state = decision.state
        if member_id not in state.members:
            # A replaced static member has a successor with the same share.
            member_id = state.instances.get(self._instances.get(member_id, ""), member_id)
        known = state.target_of(member_id)
        if target is known or target == known or member_id not in state.members:
            return 1 + len(target)
        decision.write(records.target(decision.group_id, member_id, target))
        self._has_written = True
        self._changed.add(member_id)
        return WRITING_EFFORT * (1 + len(target)) + sum(map(len, target.values()))


def compute(
    state: ConsumerGroupState,
    topics: TopicsView,
    settings: ConsumerGroupSettings,
    *,
    targets_are_disjoint: bool,
) -> Steps[Mapping[str, Assignment]]:
    """Computes the new targets; unchanged targets may be omitted."""
    known = known_topics(state.subscriptions(), topics)
    to_assign = {topic.topic_id: topic.to_assign() for topic in known.values()}
    yield 10 * len(known)
    assign = ASSIGNORS[chosen_assignor(state, settings)]
    if assign is assign_uniform and targets_are_disjoint and only_adds_members(state, to_assign):
        return (yield from assign_to_new_members(target_counts(state), state.targets))
    members = yield from subscribers(state, known)
    return (yield from assign.in_steps(members, to_assign))


def only_adds_members(state: ConsumerGroupState, to_assign: Mapping[bytes, TopicToAssign]) -> bool:
    """Returns whether members only joined: equal subscriptions, and all partitions have owners.

    The caller knows that no two members own the same partition.
    """
    assignment_inputs = state.counts.assignment_inputs
    if len(assignment_inputs) != 1 or not state.targets.keys() <= state.members.keys():
        return False
    [inputs] = assignment_inputs
    if inputs.rack_id is not None and any(topic.racks for topic in to_assign.values()):
        return False
    everything = {it: topic.partition_count for it, topic in to_assign.items()}
    return state.counts.target_sizes_by_topic == everything


def target_counts(state: ConsumerGroupState) -> dict[str, int]:
    target_sizes = state.counts.target_sizes
    if state.instances:
        members = sorted(state.members.values(), key=lambda it: it.instance_id or it.member_id)
        return {it.member_id: target_sizes.get(it.member_id, 0) for it in members}
    return {member_id: target_sizes.get(member_id, 0) for member_id in sorted(state.members)}


def subscribers(
    state: ConsumerGroupState, known: Mapping[str, TopicView]
) -> Steps[list[Subscriber]]:
    topic_ids: dict[frozenset[str], frozenset[bytes]] = {}
    found = []
    for it in state.members.values():
        names = state.topic_names_of(it)
        if names not in topic_ids:
            some, others = (names, known) if len(names) < len(known) else (known, names)
            topic_ids[names] = frozenset(known[name].topic_id for name in some if name in others)
            yield len(some)
        found.append(
            Subscriber(
                it.member_id,
                topic_ids[names],
                state.target_of(it.member_id),
                it.instance_id,
                it.rack_id,
            )
        )
        yield 3
    return found


def chosen_assignor(state: ConsumerGroupState, settings: ConsumerGroupSettings) -> str:
    """Returns the assignor that most members request, else the first configured one."""
    votes: Counter[str | None] = Counter()
    for inputs, members in state.counts.assignment_inputs.items():
        votes[inputs.server_assignor] += members
    return max(settings.assignors, key=lambda name: votes[name])
