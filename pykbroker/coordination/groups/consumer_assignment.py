"""When a consumer group gets a new target assignment, and by which assignor."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pykbroker.coordination.assignors import ASSIGNORS
from pykbroker.coordination.assignors.question import NOTHING, Subscriber
from pykbroker.coordination.groups import consumer_records as records

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pykbroker.coordination.assignors.question import Assignment
    from pykbroker.coordination.groups.consumer_decision import Decision
    from pykbroker.coordination.groups.consumer_settings import ConsumerGroupSettings
    from pykbroker.coordination.groups.consumer_state import ConsumerGroupState
    from pykbroker.coordination.groups.consumer_topics import TopicsView, TopicView


def assign_if_due(decision: Decision) -> None:
    """A target older than its group is computed again, but not twice within the interval."""
    state = decision.state
    age_ms = decision.now_ms - state.assigned_at_ms
    if state.epoch <= state.assignment_epoch:
        return
    if 0 <= age_ms < decision.settings.assignment_interval_ms:
        return
    targets = compute(state, decision.topics, decision.settings)
    before = state.targets
    changed = [
        records.target(state.group_id, member_id, targets[member_id])
        for member_id in sorted(it for it in targets if targets[it] != before.get(it, NOTHING))
    ]
    epoch = records.assignment_epoch(state.group_id, state.epoch, decision.now_ms)
    decision.write(*changed, epoch)
    decision.draft.because(
        f"group {state.group_id}: assignment of epoch {state.epoch} "
        f"for {len(state.members)} members, {len(changed)} of them with a new share"
    )


def compute(
    state: ConsumerGroupState, topics: TopicsView, settings: ConsumerGroupSettings
) -> Mapping[str, Assignment]:
    known = existing_topics(state.topic_names(), topics)
    members, targets = state.members.values(), state.targets
    all_names = [state.topic_names_of(it) for it in members]
    topic_ids = {
        names: frozenset(known[it].topic_id for it in names if it in known)
        for names in set(all_names)
    }
    subscribers = [
        Subscriber(
            it.member_id,
            topic_ids[names],
            targets.get(it.member_id, NOTHING),
            it.instance_id,
            it.rack_id,
        )
        for it, names in zip(members, all_names, strict=True)
    ]
    assign = ASSIGNORS[chosen_assignor(state, settings)]
    return assign(subscribers, {topic.topic_id: topic.to_assign() for topic in known.values()})


def existing_topics(names: frozenset[str], topics: TopicsView) -> dict[str, TopicView]:
    return {name: topic for name in sorted(names) if (topic := topics.topic(name)) is not None}


def chosen_assignor(state: ConsumerGroupState, settings: ConsumerGroupSettings) -> str:
    """The one that most members ask for; the operator's first choice where none does."""
    votes = Counter(member.server_assignor for member in state.members.values())
    return max(settings.assignors, key=lambda name: votes[name])
