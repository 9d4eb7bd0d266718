"""The states of a classic group: what each answers to its members, and what moves it on.

Empty: nobody is a member. Offsets may be there, and members that were given an id and have yet to
come back with it. Whoever claims to be a member is unknown; consumers that assign partitions to
themselves may commit. The first member to join starts a rebalance.

PreparingRebalance: members are called together. A JoinGroup is parked, heartbeats and syncs are
told to rejoin, commits for the past generation are still taken. The state ends when all members
have joined, or when the rebalance timeout has passed: members that did not come are dropped, save
static ones. A group that was empty waits a little longer for company (KIP-134).

CompletingRebalance: a new generation exists and its leader works out the assignment. The syncs of
others are parked until the leader's; commits are told to wait. A member that asks again with the
same metadata lost its answer and is told again; one with other metadata starts a new rebalance.

Stable: the assignment is in the log. A sync is answered at once. A follower that joins again
unchanged is told again; the leader, or changed metadata, starts a rebalance.

Dead: the group was deleted, or never was. No object stands for it: the registry just does not
know the id, and answers for it.
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
    """What becomes of a JoinGroup from somebody who is a member already."""

    IS_UNKNOWN = auto()
    WAITS_FOR_THE_OTHERS = auto()
    IS_TOLD_AGAIN_UNLESS_CHANGED = auto()
    IS_TOLD_AGAIN_UNLESS_CHANGED_OR_LEADER = auto()


class OnSync(Enum):
    """What becomes of a member's SyncGroup."""

    IS_UNKNOWN = auto()
    MUST_REJOIN = auto()
    WAITS_FOR_THE_LEADER = auto()
    GETS_ITS_ASSIGNMENT = auto()


class Answers(NamedTuple):
    """A row of the table: how a group answers in one state."""

    rejoin: OnRejoin
    sync: OnSync
    heartbeat: ErrorCode
    commit: ErrorCode
    """To a member of the current generation."""
    deletion: ErrorCode


class Move(NamedTuple):
    origin: GroupState
    goal: GroupState
    cause: str


ANSWERS = {
    GroupState.EMPTY: Answers(
        rejoin=OnRejoin.IS_UNKNOWN,
        sync=OnSync.IS_UNKNOWN,
        heartbeat=ErrorCode.UNKNOWN_MEMBER_ID,
        commit=ErrorCode.UNKNOWN_MEMBER_ID,
        deletion=ErrorCode.NONE,
    ),
    GroupState.PREPARING_REBALANCE: Answers(
        rejoin=OnRejoin.WAITS_FOR_THE_OTHERS,
        sync=OnSync.MUST_REJOIN,
        heartbeat=ErrorCode.REBALANCE_IN_PROGRESS,
        commit=ErrorCode.NONE,
        deletion=ErrorCode.NON_EMPTY_GROUP,
    ),
    GroupState.COMPLETING_REBALANCE: Answers(
        rejoin=OnRejoin.IS_TOLD_AGAIN_UNLESS_CHANGED,
        sync=OnSync.WAITS_FOR_THE_LEADER,
        heartbeat=ErrorCode.NONE,
        commit=ErrorCode.REBALANCE_IN_PROGRESS,
        deletion=ErrorCode.NON_EMPTY_GROUP,
    ),
    GroupState.STABLE: Answers(
        rejoin=OnRejoin.IS_TOLD_AGAIN_UNLESS_CHANGED_OR_LEADER,
        sync=OnSync.GETS_ITS_ASSIGNMENT,
        heartbeat=ErrorCode.NONE,
        commit=ErrorCode.NONE,
        deletion=ErrorCode.NON_EMPTY_GROUP,
    ),
    GroupState.DEAD: Answers(
        rejoin=OnRejoin.IS_UNKNOWN,
        sync=OnSync.IS_UNKNOWN,
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

MOVES = (
    Move(_EMPTY, _PREPARING, "a member joins"),
    Move(_PREPARING, _COMPLETING, "all have joined, or their time is over"),
    Move(_PREPARING, _EMPTY, "nobody is left"),
    Move(_COMPLETING, _STABLE, "the leader's assignment is in the log"),
    Move(_COMPLETING, _PREPARING, "a member joins, changes, leaves, fails or does not sync"),
    Move(_STABLE, _PREPARING, "a member joins, changes, leaves, fails or does not sync"),
    Move(_EMPTY, _DEAD, "deleted, or its last offset expires"),
)

LEGAL_MOVES = frozenset((move.origin, move.goal) for move in MOVES)
