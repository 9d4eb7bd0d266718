"""What a change of subscriptions or topics does to a group: its epoch grows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.coordination.groups import consumer_records as records
from pykbroker.coordination.groups.consumer_regex import TooCostly, compile_regex

if TYPE_CHECKING:
    from pykbroker.coordination.groups.consumer_decision import Decision
    from pykbroker.coordination.groups.consumer_member import ConsumerMember
    from pykbroker.coordination.groups.consumer_memory import Memory


def take_subscription(
    decision: Decision, memory: Memory, before: ConsumerMember, after: ConsumerMember
) -> bool:
    """Write down what a member asks for now; tells whether it reads other topics than before."""
    names_before = decision.state.topic_names_of(before)
    all_matched_before = dict(decision.state.regexes)
    if after != before or before.member_id not in decision.state.members:
        decision.write(records.subscription(decision.group_id, after))
    drop_unused_regex(decision, before.topic_regex)
    match_regexes(decision, memory, after.topic_regex)
    subscription_changed = decision.state.topic_names_of(after) != names_before
    regexes_changed = any(
        regex in all_matched_before and matched.names != all_matched_before[regex].names
        for regex, matched in decision.state.regexes.items()
    )
    grow(decision, memory, because_of_members=subscription_changed or regexes_changed)
    return subscription_changed


def drop_unused_regex(decision: Decision, regex: str) -> None:
    if regex in decision.state.regexes and not decision.state.is_used(regex):
        decision.write(records.without_regular_expression(decision.group_id, regex))


def match_regexes(decision: Decision, memory: Memory, regex_of_member: str) -> None:
    """Look which topics the members' regular expressions find, where that may have changed."""
    for regex in sorted({regex_of_member, *decision.state.regexes} - {""}):
        known = decision.state.regexes.get(regex)
        if known is not None and not is_due(decision, memory, regex, known.matched_at_ms):
            continue
        memory.looked_at[regex] = (decision.topics.version, decision.now_ms)
        try:
            names = compile_regex(regex).matches(decision.topics.names())
        except TooCostly:
            continue  # it keeps what it found while there were fewer topics
        if known is None or names != known.names:
            decision.write(
                records.regular_expression(
                    decision.group_id, regex, names, decision.topics.version, decision.now_ms
                )
            )


def is_due(decision: Decision, memory: Memory, regex: str, matched_at_ms: int) -> bool:
    version, at_ms = memory.looked_at.get(regex, (None, matched_at_ms))
    age_ms = decision.now_ms - at_ms
    return (
        version != decision.topics.version and age_ms >= decision.settings.regex_refresh_interval_ms
    )


def grow(decision: Decision, memory: Memory, *, because_of_members: bool) -> None:
    """Start a new epoch of the group if its members or its topics have changed."""
    state = decision.state
    metadata_hash = memory.fingerprint(state.topic_names(), decision.topics)
    if because_of_members or metadata_hash != state.metadata_hash:
        epoch = state.epoch + 1
        decision.write(records.group_epoch(state.group_id, epoch, metadata_hash))
        why = "subscriptions" if because_of_members else "topics"
        decision.draft.because(f"group {state.group_id}: epoch {epoch}, its {why} changed")
