"""Decisions on the in-sync replicas of a partition, and the high watermark that follows from them.

The in-sync replicas have all committed records. A record is committed once each of them has it.
Consumers see only committed records, which a change of leadership cannot truncate.

The controller decides which replicas are in sync. The leader proposes a change (AlterPartition),
which the controller confirms in its response and in the metadata log. In between, both outcomes
are possible, so the leader waits for the replicas of both sets (KIP-497).
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, TypeAlias

from pykbroker.partitions.follower_progress import ANY_EPOCH, NO_PROGRESS
from pykbroker.partitions.leadership import RECOVERED
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.late_dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from pykbroker.partitions.follower_progress import FollowerProgress

    Progress: TypeAlias = Mapping[int, FollowerProgress]
    """The progress of the replicas of a partition except its leader, by broker id."""
    LiveEpoch: TypeAlias = Callable[[int], int | None]
    """Returns the registered epoch of a broker; None if it is not registered or is fenced."""
    JoiningEpoch: TypeAlias = Callable[[int], int | None]
    """Like LiveEpoch; also None for a broker in controlled shutdown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InSyncProposal:
    """A change of the in-sync set that the leader asks the controller to make."""

    in_sync: tuple[tuple[int, int], ...]
    """Ids and epochs of brokers; an epoch of -1 is not checked by the controller."""
    leader_epoch: int
    partition_epoch: int
    leader_recovery_state: int = RECOVERED

    @property
    def replicas(self) -> tuple[int, ...]:
        return tuple(replica for replica, _ in self.in_sync)


@dataclass(frozen=True, slots=True, kw_only=True)
class InSyncChange:
    """The state of a partition after a proposal, as the controller reports it."""

    leader: int
    leader_epoch: int
    in_sync: tuple[int, ...]
    partition_epoch: int
    leader_recovery_state: int = RECOVERED


ProposalOutcome: TypeAlias = InSyncChange | ErrorCode
"""The result of a proposal in a response to AlterPartition."""


class RefusalEffect(Enum):
    """The reaction of the leader to a refused proposal."""

    DROP = auto()
    """The controller has not applied it and will not: the committed set is valid."""
    AWAIT_METADATA = auto()
    """The state of this leader is old; the proposal stays pending until the metadata arrives."""
    RETRY = auto()


NOT_APPLIED = (ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA)
STATE_IS_OLD = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.NEW_LEADER_ELECTED,
)


def effect_of_refusal(code: ErrorCode) -> RefusalEffect:
    """Returns the effect of an error code for one partition.

    Only a code that excludes that the controller has applied the proposal may drop it. After any
    other one the leader continues to wait for the proposed replicas.
    """
    if code in NOT_APPLIED:
        return RefusalEffect.DROP
    if code in STATE_IS_OLD:
        return RefusalEffect.AWAIT_METADATA
    return RefusalEffect.RETRY


def is_current(change: InSyncChange, *, leader_epoch: int, partition_epoch: int) -> bool:
    """Returns True if the leader has to apply a confirmed change.

    The metadata log can arrive before the response; then the change is older than the state.
    """
    return change.leader_epoch == leader_epoch and change.partition_epoch >= partition_epoch


# --- high watermark


def advanced_high_watermark(
    current: int,
    *,
    leader_end_offset: int,
    committed: Collection[int],
    proposed: Collection[int],
    followers: Progress,
    min_in_sync: int,
    now: float,
    lag_seconds_max: float,
    joining_epoch: JoiningEpoch,
) -> int:
    """Returns the smallest log end offset of the awaited replicas; never less than `current`.

    Awaited are the leader, the committed in-sync set, the replicas that the leader proposes to add
    and replicas that have caught up and can be added. Without the latter a follower could stay
    slightly behind the high watermark and never join.

    With fewer in-sync replicas than `min.insync.replicas` it does not advance (KIP-966), because
    so few replicas can be lost together.
    """
    if len(committed) < min_in_sync:
        return current
    reached = leader_end_offset
    for replica, progress in followers.items():
        if progress.log_end_offset < reached and (
            replica in committed
            or replica in proposed
            or (
                progress.is_caught_up(leader_end_offset, now, lag_seconds_max)
                and is_eligible(replica, progress, joining_epoch)
            )
        ):
            reached = progress.log_end_offset
    return max(current, reached)


# --- changes of the in-sync set


def is_eligible(replica: int, progress: FollowerProgress, joining_epoch: JoiningEpoch) -> bool:
    """Returns True if the controller accepts the broker in an in-sync set.

    Its last fetch must belong to its present registration: a broker that has restarted after that
    fetch may have lost records that the fetch acknowledged (KIP-903).
    """
    registered = joining_epoch(replica)
    return (
        registered is not None
        and progress.broker_epoch is not None
        and progress.broker_epoch in (ANY_EPOCH, registered)
    )


def may_join(
    replica: int,
    progress: FollowerProgress,
    *,
    committed: Collection[int],
    high_watermark: int,
    epoch_start_offset: int,
    joining_epoch: JoiningEpoch,
) -> bool:
    """Returns True if the leader may propose to add a follower to the in-sync set.

    The follower needs the records before the start of the leader epoch as well, because they can be
    committed although the high watermark of a new leader has not reached them yet.
    """
    return (
        replica not in committed
        and progress.log_end_offset >= high_watermark
        and progress.log_end_offset >= epoch_start_offset
        and is_eligible(replica, progress, joining_epoch)
    )


def out_of_sync(
    committed: Collection[int],
    followers: Progress,
    *,
    leader: int,
    leader_end_offset: int,
    now: float,
    lag_seconds_max: float,
) -> tuple[int, ...]:
    """Returns the in-sync replicas that lag for longer than `replica.lag.time.max.ms`."""
    return tuple(
        replica
        for replica in committed
        if replica != leader
        and not followers.get(replica, NO_PROGRESS).is_caught_up(
            leader_end_offset, now, lag_seconds_max
        )
    )


def with_broker_epochs(
    in_sync: Collection[int], followers: Progress, *, leader: int, own_epoch: int
) -> tuple[tuple[int, int], ...]:
    """Returns a proposed in-sync set with the broker epoch of the last fetch of each replica.

    A replica that has not fetched from this leader is sent without an epoch: if it restarts, the
    controller removes it from the set, and the partition epoch of the proposal is old.
    """
    epochs = []
    for replica in in_sync:
        epoch = own_epoch
        if replica != leader:
            known = followers.get(replica, NO_PROGRESS).broker_epoch
            epoch = ANY_EPOCH if known is None else known
        epochs.append((replica, epoch))
    return tuple(epochs)


# --- log start offset


def low_watermark(leader_start_offset: int, followers: Progress, live_epoch: LiveEpoch) -> int:
    """Returns the smallest log start offset of the live replicas, for DeleteRecords."""
    lowest = leader_start_offset
    for replica, progress in followers.items():
        if progress.log_start_offset < lowest and live_epoch(replica) is not None:
            lowest = progress.log_start_offset
    return lowest
