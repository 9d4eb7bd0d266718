"""Timeouts of sessions, rebalances and syncs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.apis.groups.transcript import conversation, gather, subscription

if TYPE_CHECKING:
    from tests.apis.groups.transcript import GroupTranscript

SHORTEST_SESSION_MS = 6_000
SHORT_MS = 300


@conversation
def members_that_do_not_rejoin_in_time_are_removed(broker: GroupTranscript) -> None:
    group = broker.group()
    leader, second, third = (group.member(name) for name in ("leader", "second", "third"))
    gather([leader, second, third], rebalance_timeout_ms=SHORT_MS)
    leader.join(rebalance_timeout_ms=SHORT_MS, note="the others stay away")
    group.describe()
    second.heartbeat()
    second.join(note="comes too late")
    third.sync(note="comes too late")


@conversation
def members_that_do_not_sync_in_time_are_removed(broker: GroupTranscript) -> None:
    group = broker.group()
    leader, second = group.member("leader"), group.member("second")
    leader.enter(rebalance_timeout_ms=SHORT_MS)
    leader.hear()
    second.enter(rebalance_timeout_ms=SHORT_MS)
    group.until("PreparingRebalance", 2)
    leader.join(rebalance_timeout_ms=SHORT_MS)
    second.hear()
    second.begin_sync()
    second.hear()
    leader.heartbeat(note="never said who reads what")
    second.heartbeat()
    second.join(note="is alone now")
    group.describe()


@conversation
def static_members_stay_in_a_rebalance(broker: GroupTranscript) -> None:
    group = broker.group()
    leader, second = group.member("one", instance="one"), group.member("two", instance="two")
    gather([leader, second], rebalance_timeout_ms=SHORT_MS)
    second.join(
        rebalance_timeout_ms=SHORT_MS,
        protocols={"range": subscription("other")},
        note="the other stays away",
    )
    group.describe()
    leader.heartbeat()
    leader.join(note="comes late")


@conversation
def sessions_end_without_heartbeats(broker: GroupTranscript) -> None:
    """Runs all cases together, because the shortest session timeout is long."""
    quiet, static, waiting = (broker.group(name) for name in ("quiet", "static", "waiting"))
    leader, silent = quiet.member("leader"), quiet.member("silent")
    gather([leader])
    silent.enter(session_timeout_ms=SHORTEST_SESSION_MS)
    quiet.until("PreparingRebalance", 2)
    leader.join(note="again")
    silent.hear()
    leader.sync(shares={leader: b"half", silent: b"half"})
    silent.sync()
    one = static.member("one", instance="one")
    gather([one], session_timeout_ms=SHORTEST_SESSION_MS)
    newcomer = waiting.member("newcomer")
    newcomer.join(session_timeout_ms=SHORTEST_SESSION_MS, note="gets an id")
    quiet.until("PreparingRebalance", 1)
    leader.heartbeat(note="the other is gone")
    leader.join(note="alone")
    silent.heartbeat()
    static.until("Empty")
    static.describe()
    one.heartbeat()
    one.join(note="comes back")
    newcomer.join(note="with an id that has expired")
