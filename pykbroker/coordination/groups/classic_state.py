"""The states of a classic group: the response to each request, and the transitions.

Empty: the group has no members. It can have committed offsets, and member ids that were allocated
and not used yet. Requests of members get UNKNOWN_MEMBER_ID; consumers that assign partitions
themselves may commit. The first JoinGroup starts a rebalance.

PreparingRebalance: the coordinator collects the members. A JoinGroup waits; Heartbeat and SyncGroup
return REBALANCE_IN_PROGRESS; commits of the previous generation are accepted. The state ends when
all members have joined or at the rebalance timeout, which removes all dynamic members that have not
joined. A group that was empty waits `group.initial.rebalance.delay.ms` for more members (KIP-134).

CompletingRebalance: a new generation exists and its leader computes the assignment. SyncGroup of
other members waits for that of the leader; commits return REBALANCE_IN_PROGRESS. A JoinGroup with
unchanged metadata gets the same response again; changed metadata starts a new rebalance.

Stable: the assignment is in the log. SyncGroup returns it. A JoinGroup of a follower with unchanged
metadata gets the same response again; one of the leader or with changed metadata starts a
rebalance.

Dead: the group was deleted or never existed. No object represents it: the registry returns the
errors for unknown groups.
"""

from __future__ import annotations

from enum import Enum, StrEnum, auto
from typing import NamedTuple

from pykbroker_protocol.errors import ErrorCode


class GroupState(StrEnum):
    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class OnRejoin(Enum):
    """Result of a JoinGroup of an existing member."""

    UNKNOWN_MEMBER = auto()
    WAITS_FOR_OTHER_MEMBERS = auto()
    REPEATS_RESPONSE_UNLESS_CHANGED = auto()
    REPEATS_RESPONSE_UNLESS_CHANGED_OR_LEADER = auto()


class OnSync(Enum):
    """Result of a SyncGroup of a member."""

    UNKNOWN_MEMBER = auto()
    MUST_REJOIN = auto()
    WAITS_FOR_LEADER = auto()
    RETURNS_ASSIGNMENT = auto()


class Answers(NamedTuple):
    """A row of the table: the results in one state."""

    rejoin: OnRejoin
    sync: OnSync
    heartbeat: ErrorCode
    commit: ErrorCode
    """For a member of the current generation."""
    deletion: ErrorCode


class Transition(NamedTuple):
    origin: GroupState
    goal: GroupState
    cause: str


ANSWERS = {
    GroupState.EMPTY: Answers(
        rejoin=OnRejoin.UNKNOWN_MEMBER,
        sync=OnSync.UNKNOWN_MEMBER,
        heartbeat=ErrorCode.UNKNOWN_MEMBER_ID,
        commit=ErrorCode.UNKNOWN_MEMBER_ID,
        deletion=ErrorCode.NONE,
    ),
    GroupState.PREPARING_REBALANCE: Answers(
        rejoin=OnRejoin.WAITS_FOR_OTHER_MEMBERS,
        sync=OnSync.MUST_REJOIN,
        heartbeat=ErrorCode.REBALANCE_IN_PROGRESS,
        commit=ErrorCode.NONE,
        deletion=ErrorCode.NON_EMPTY_GROUP,
    ),
    GroupState.COMPLETING_REBALANCE: Answers(
        rejoin=OnRejoin.REPEATS_RESPONSE_UNLESS_CHANGED,
        sync=OnSync.WAITS_FOR_LEADER,
        heartbeat=ErrorCode.NONE,
        commit=ErrorCode.REBALANCE_IN_PROGRESS,
        deletion=ErrorCode.NON_EMPTY_GROUP,
    ),
    GroupState.STABLE: Answers(
        rejoin=OnRejoin.REPEATS_RESPONSE_UNLESS_CHANGED_OR_LEADER,
        sync=OnSync.RETURNS_ASSIGNMENT,
        heartbeat=ErrorCode.NONE,
        commit=ErrorCode.NONE,
        deletion=ErrorCode.NON_EMPTY_GROUP,
    ),
    GroupState.DEAD: Answers(
        rejoin=OnRejoin.UNKNOWN_MEMBER,
        sync=OnSync.UNKNOWN_MEMBER,
        heartbeat=ErrorCode.UNKNOWN_MEMBER_ID,
        commit=ErrorCode.GROUP_ID_NOT_FOUND,
        deletion=ErrorCode.GROUP_ID_NOT_FOUND,
    ),
}

_EMPTY, _PREPARING = GroupState.EMPTY, GroupState.PREPARING_REBALANCE
_COMPLETING, _STABLE, _DEAD = (
    GroupState.COMPLETING_REBALANCE,
    GroupState.STABLE,
    GroupState.DEAD,
)

TRANSITIONS = (
    Transition(_EMPTY, _PREPARING, "a member joins"),
    Transition(
        _PREPARING, _COMPLETING, "all members have joined, or the rebalance timeout has passed"
    ),
    Transition(_PREPARING, _EMPTY, "the last member leaves"),
    Transition(_COMPLETING, _STABLE, "the leader's assignment is in the log"),
    Transition(_COMPLETING, _PREPARING, "a member joins, changes, leaves, fails or does not sync"),
    Transition(_STABLE, _PREPARING, "a member joins, changes, leaves, fails or does not sync"),
    Transition(_EMPTY, _DEAD, "deleted, or its last offset expires"),
)

LEGAL_TRANSITIONS = frozenset((it.origin, it.goal) for it in TRANSITIONS)
