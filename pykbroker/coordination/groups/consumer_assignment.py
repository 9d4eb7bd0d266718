"""When a consumer group gets a new target assignment, and by which assignor."""

from __future__ import annotations

from collections import Counter
from operator import itemgetter
from typing import TYPE_CHECKING

from pykbroker.coordination.assignors import ASSIGNORS
from pykbroker.coordination.assignors.question import NOTHING, Subscriber
from pykbroker.coordination.assignors.uniform import assign_uniform, share_with_newcomers
from pykbroker.coordination.groups import consumer_records as records

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pykbroker.coordination.assignors.question import Assignment, TopicToAssign
    from pykbroker.coordination.groups.consumer_decision import Decision
    from pykbroker.coordination.groups.consumer_memory import Memory
    from pykbroker.coordination.groups.consumer_settings import ConsumerGroupSettings
    from pykbroker.coordination.groups.consumer_state import ConsumerGroupState
    from pykbroker.coordination.groups.consumer_topics import TopicsView, TopicView


def assignment_is_due(decision: Decision) -> bool:
    """A target older than its group is computed again, but not twice within the interval."""
    state = decision.state
    if state.epoch <= state.assignment_epoch:
        return False
    age_ms = decision.now_ms - state.assigned_at_ms
    return not 0 <= age_ms < decision.settings.assignment_interval_ms


def assign_if_due(decision: Decision, memory: Memory) -> None:
    if not assignment_is_due(decision):
        return
    state = decision.state
    before = state.targets
    was_shared_out_here = memory.shared_out_at_epoch == state.assignment_epoch
    after = compute(
        state, decision.topics, decision.settings, was_shared_out_here=was_shared_out_here
    )
    memory.shared_out_at_epoch = state.epoch
    changed = [
        records.target(state.group_id, member_id, target)
        for member_id, target in sorted(after.items(), key=itemgetter(0))
        if target is not (known := before.get(member_id, NOTHING)) and target != known
    ]
    epoch = records.assignment_epoch(state.group_id, state.epoch, decision.now_ms)
    decision.write(*changed, epoch)
    decision.draft.because(
        f"group {state.group_id}: assignment of epoch {state.epoch} "
        f"for {len(state.members)} members, {len(changed)} of them with a new share"
    )


def compute(
    state: ConsumerGroupState,
    topics: TopicsView,
    settings: ConsumerGroupSettings,
    *,
    was_shared_out_here: bool,
) -> Mapping[str, Assignment]:
    """The new targets; shares that stay as they are may be left out."""
    known = existing_topics(state.topic_names(), topics)
    to_assign = {topic.topic_id: topic.to_assign() for topic in known.values()}
    assign = ASSIGNORS[chosen_assignor(state, settings)]
    if assign is assign_uniform and was_shared_out_here and only_lacks_newcomers(state, to_assign):
        return share_with_newcomers(meant_for_each(state), state.targets)
    return assign(list(subscribers(state, known)), to_assign)


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


def subscribers(state: ConsumerGroupState, known: Mapping[str, TopicView]) -> Iterator[Subscriber]:
    topic_ids: dict[frozenset[str], frozenset[bytes]] = {}
    for it in state.members.values():
        names = state.topic_names_of(it)
        if names not in topic_ids:
            topic_ids[names] = frozenset(known[name].topic_id for name in names if name in known)
        yield Subscriber(
            it.member_id,
            topic_ids[names],
            state.target_of(it.member_id),
            it.instance_id,
            it.rack_id,
        )


def existing_topics(names: frozenset[str], topics: TopicsView) -> dict[str, TopicView]:
    return {name: topic for name in sorted(names) if (topic := topics.topic(name)) is not None}


def chosen_assignor(state: ConsumerGroupState, settings: ConsumerGroupSettings) -> str:
    """The one that most members ask for; the operator's first choice where none does."""
    votes: Counter[str | None] = Counter()
    for wish, members in state.tallies.wishes.items():
        votes[wish.server_assignor] += members
    return max(settings.assignors, key=lambda name: votes[name])
