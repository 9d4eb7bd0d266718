"""When a consumer group gets a new target assignment, and by which assignor."""

from __future__ import annotations

from collections import Counter
from operator import itemgetter
from typing import TYPE_CHECKING

from pykbroker.coordination.assignors import ASSIGNORS
from pykbroker.coordination.assignors.assignor import Subscriber
from pykbroker.coordination.assignors.uniform import assign_to_new_members, assign_uniform
from pykbroker.coordination.groups import consumer_records as records
from pykbroker.coordination.groups.consumer_decision import ASSIGNMENT
from pykbroker.coordination.groups.consumer_memory import NEVER
from pykbroker.coordination.groups.consumer_topics import known_topics

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pykbroker.coordination.assignors.assignor import Assignment, Steps, TopicToAssign
    from pykbroker.coordination.groups.consumer_decision import Decision
    from pykbroker.coordination.groups.consumer_memory import Memory
    from pykbroker.coordination.groups.consumer_settings import ConsumerGroupSettings
    from pykbroker.coordination.groups.consumer_state import ConsumerGroupState
    from pykbroker.coordination.groups.consumer_topics import TopicsView, TopicView


SHARING_EFFORT = 10_000
"""Operations of one slice of an assignment: 2 to 5 ms."""
WRITING_EFFORT = 25
"""Operations that a topic in a record costs: it is replayed twice, and encoded."""
SIZE_AT_ONCE_MAX = 20_000
"""Members times topics up to which the assignment is part of a decision about a classic member."""


def assignment_is_due(decision: Decision) -> bool:
    """A target older than its group is computed again, but not twice within the interval."""
    state = decision.state
    if state.epoch <= state.assignment_epoch:
        return False
    age_ms = decision.now_ms - state.assigned_at_ms
    return not 0 <= age_ms < decision.settings.assignment_interval_ms


def assign_if_due(decision: Decision, memory: Memory) -> None:
    """For a classic member, which gets its share with its answer unless the group is large."""
    if not assignment_is_due(decision):
        return
    if size_of(decision.state, decision.topics) > SIZE_AT_ONCE_MAX:
        decision.draft.defer(ASSIGNMENT, decision.group_id)  # it has to rejoin meanwhile
        return
    sharing = Sharing(decision, memory)
    while not sharing.go_on(decision, memory, SHARING_EFFORT):
        pass


def size_of(state: ConsumerGroupState, topics: TopicsView) -> int:
    return len(state.members) * (1 + len(known_topics(state.subscriptions(), topics)))


def go_on_sharing(decision: Decision, memory: Memory, sharing: Sharing | None) -> Sharing | None:
    """Work on a new target for one slice; returns what is left to do."""
    if sharing is not None and sharing.epoch <= decision.state.assignment_epoch:
        sharing = None  # a decision about a classic member was faster
    if sharing is None and assignment_is_due(decision):
        sharing = Sharing(decision, memory)
    if sharing is None or sharing.go_on(decision, memory, SHARING_EFFORT):
        return None
    return sharing


class Sharing:
    """A new target in the making, for the group as it was when the computation began.

    The group may change before the target is written. It is then the target of an earlier epoch:
    members that have left are passed over, and a newer target is due.
    """

    __slots__ = ("_at", "_changed", "_has_written", "_instances", "_steps", "_targets", "epoch")

    def __init__(self, decision: Decision, memory: Memory) -> None:
        state = decision.state.copy()  # the group goes on
        self.epoch = state.epoch
        self._instances = {member_id: name for name, member_id in state.instances.items()}
        self._steps = self._compute(
            compute(
                state,
                decision.topics,
                decision.settings,
                was_shared_out_here=memory.shared_out_at_epoch == state.assignment_epoch,
            )
        )
        self._targets: list[tuple[str, Assignment]] = []
        self._at = 0
        """The next of the targets to write."""
        self._changed: set[str] = set()
        self._has_written = False
        """In this pass over the targets; one without a write is the last."""

    def _compute(self, steps: Steps[Mapping[str, Assignment]]) -> Steps[None]:
        self._targets = sorted((yield from steps).items(), key=itemgetter(0))

    def go_on(self, decision: Decision, memory: Memory, effort: int) -> bool:
        """Compute, or write, for about that much effort; returns whether all is written."""
        for step in self._steps:
            effort -= step
            if effort <= 0:
                return False
        memory.shared_out_at_epoch = NEVER  # targets of two epochs may mean the same partition
        if not self._write(decision, effort):
            return False
        memory.shared_out_at_epoch = self.epoch
        decision.write(records.assignment_epoch(decision.group_id, self.epoch, decision.now_ms))
        decision.draft.add_reason(
            f"group {decision.group_id}: assignment of epoch {self.epoch} "
            f"for {len(decision.state.members)} members, {len(self._changed)} of them with a new "
            "share"
        )
        return True

    def _write(self, decision: Decision, effort: int) -> bool:
        """What an earlier turn has decided may not have been written: the last pass finds out."""
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
        """Returns the effort."""
        state = decision.state
        if member_id not in state.members:
            # A static member that was replaced has a successor with the same share.
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
    was_shared_out_here: bool,
) -> Steps[Mapping[str, Assignment]]:
    """The new targets; shares that stay as they are may be left out."""
    known = known_topics(state.subscriptions(), topics)
    to_assign = {topic.topic_id: topic.to_assign() for topic in known.values()}
    yield 10 * len(known)
    assign = ASSIGNORS[chosen_assignor(state, settings)]
    if assign is assign_uniform and was_shared_out_here and only_lacks_newcomers(state, to_assign):
        return (yield from assign_to_new_members(meant_for_each(state), state.targets))
    everybody = yield from subscribers(state, known)
    return (yield from assign.in_steps(everybody, to_assign))


def only_lacks_newcomers(
    state: ConsumerGroupState, to_assign: Mapping[bytes, TopicToAssign]
) -> bool:
    """Members who all wish for the same own all there is, and nobody has left.

    That nobody owns the same as another, whoever asks knows.
    """
    wishes = state.tallies.wishes
    if len(wishes) != 1 or not state.targets.keys() <= state.members.keys():
        return False
    [wish] = wishes
    if wish.rack_id is not None and any(topic.racks for topic in to_assign.values()):
        return False
    everything = {it: topic.partition_count for it, topic in to_assign.items()}
    return state.tallies.meant_by_topic == everything


def meant_for_each(state: ConsumerGroupState) -> dict[str, int]:
    meant_for = state.tallies.meant_for
    if state.instances:
        members = sorted(state.members.values(), key=lambda it: it.instance_id or it.member_id)
        return {it.member_id: meant_for.get(it.member_id, 0) for it in members}
    return {member_id: meant_for.get(member_id, 0) for member_id in sorted(state.members)}


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
    """The one that most members ask for; the operator's first choice where none does."""
    votes: Counter[str | None] = Counter()
    for wish, members in state.tallies.wishes.items():
        votes[wish.server_assignor] += members
    return max(settings.assignors, key=lambda name: votes[name])
