"""Changes of subscriptions and topics, which bump the epoch of a consumer group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.coordination.groups import consumer_records as records
from pykbroker.coordination.groups.consumer_decision import MATCHING
from pykbroker.coordination.groups.consumer_matching import Matched, match_at_once

if TYPE_CHECKING:
    from pykbroker.coordination.groups.consumer_cache import GroupCache
    from pykbroker.coordination.groups.consumer_decision import Decision
    from pykbroker.coordination.groups.consumer_member import ConsumerMember


def take_subscription(
    decision: Decision, cache: GroupCache, before: ConsumerMember, after: ConsumerMember
) -> bool:
    """Writes the subscription of a member; returns whether its topics changed."""
    names_before = decision.state.topic_names_of(before)
    all_matched_before = dict(decision.state.regexes)
    if after != before or before.member_id not in decision.state.members:
        decision.write(records.subscription(decision.group_id, after))
    drop_unused_regex(decision, before.topic_regex)
    match_regexes(decision, cache, after.topic_regex)
    names = decision.state.topic_names_of(after)
    subscription_changed = names is not names_before and names != names_before
    regexes_changed = any(
        regex in all_matched_before
        and matched is not all_matched_before[regex]
        and matched.names != all_matched_before[regex].names
        for regex, matched in decision.state.regexes.items()
    )
    bump_epoch(decision, cache, because_of_members=subscription_changed or regexes_changed)
    return subscription_changed


def drop_unused_regex(decision: Decision, regex: str) -> None:
    if regex in decision.state.regexes and not decision.state.is_used(regex):
        decision.write(records.without_regular_expression(decision.group_id, regex))


def match_regexes(decision: Decision, cache: GroupCache, regex_of_member: str) -> None:
    """Matches expressions that are new or whose topics may have changed."""
    for regex in sorted({regex_of_member, *decision.state.regexes} - {""}):
        known = decision.state.regexes.get(regex)
        if known is not None and not is_due(decision, cache, regex, known.matched_at_ms):
            continue
        cache.matched_at[regex] = (decision.topics.version, decision.now_ms)
        found = look_up(decision, regex)
        if found is None:
            decision.draft.defer(MATCHING, decision.group_id, regex)
        else:
            store_match(decision, regex, found)


def look_up(decision: Decision, regex: str) -> Matched | None:
    """Returns the match of an expression, or None if it must be matched in slices."""
    found = decision.matched.get(regex)
    if found is None:
        found, decision.effort = match_at_once(regex, decision.topics, decision.effort)
        if found is not None:
            decision.matched[regex] = found
    return found


def store_match(decision: Decision, regex: str, found: Matched) -> None:
    """Writes a changed match; an expression that became too costly keeps its previous topics."""
    known = decision.state.regexes.get(regex)
    if found.names is not None and (known is None or found.names != known.names):
        decision.write(
            records.regular_expression(
                decision.group_id, regex, found.names, found.version, decision.now_ms
            )
        )


def apply_match(decision: Decision, cache: GroupCache, regex: str, found: Matched) -> None:
    """Applies a new match of a known expression."""
    known = decision.state.regexes.get(regex)
    if known is None:
        return  # no member uses the expression any more
    store_match(decision, regex, found)
    names_changed = decision.state.regexes[regex].names != known.names
    bump_epoch(decision, cache, because_of_members=names_changed)


def is_due(decision: Decision, cache: GroupCache, regex: str, matched_at_ms: int) -> bool:
    version, at_ms = cache.matched_at.get(regex, (None, matched_at_ms))
    age_ms = decision.now_ms - at_ms
    return (
        version != decision.topics.version and age_ms >= decision.settings.regex_refresh_interval_ms
    )


def bump_epoch(decision: Decision, cache: GroupCache, *, because_of_members: bool) -> None:
    """Starts a new group epoch if members or topics have changed."""
    state = decision.state
    metadata_hash = cache.fingerprint(state.subscriptions(), decision.topics)
    if because_of_members or metadata_hash != state.metadata_hash:
        epoch = state.epoch + 1
        decision.write(records.group_epoch(state.group_id, epoch, metadata_hash))
        why = "subscriptions" if because_of_members else "topics"
        decision.draft.add_reason(f"group {state.group_id}: epoch {epoch}, {why} changed")
