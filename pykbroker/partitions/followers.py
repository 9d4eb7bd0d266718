"""The followers of a partition: progress, in-sync set and proposed changes of this set.

It has no clock, log or connection: the leader passes times and offsets and applies the results.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pykbroker.partitions.follower_progress import (
    ANY_EPOCH,
    NO_PROGRESS,
    FollowerProgress,
    after_fetch,
    at_new_leader_epoch,
)
from pykbroker.partitions.in_sync import (
    InSyncProposal,
    RefusalEffect,
    advanced_high_watermark,
    effect_of_refusal,
    is_current,
    low_watermark,
    may_join,
    out_of_sync,
    with_broker_epochs,
)
from pykbroker.partitions.leadership import RECOVERED, Leadership
from pykbroker_protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Protocol

    from pykbroker.partitions.in_sync import ProposalOutcome

    class BrokerEpochs(Protocol):
        """Epochs and states of the registered brokers."""

        own_epoch: int

        def live(self, broker_id: int) -> int | None:
            """Returns the epoch of a broker; None if it is not registered or is fenced."""

        def joining(self, broker_id: int) -> int | None:
            """Like `live`; also None for a broker in controlled shutdown."""


class Followers:
    """The followers of a partition while this broker leads it."""

    __slots__ = ("epoch_start_offset", "epochs", "leadership", "progress", "proposal")

    def __init__(
        self, leadership: Leadership, epochs: BrokerEpochs, *, epoch_start_offset: int, now: float
    ) -> None:
        self.leadership = leadership
        """With the committed in-sync set, from the metadata log or from a response of the
        controller: the first of both to arrive."""
        self.epochs = epochs
        self.epoch_start_offset = epoch_start_offset
        """Log end offset at the start of the leader epoch."""
        self.progress: dict[int, FollowerProgress] = {
            replica: at_new_leader_epoch(is_in_sync=replica in leadership.in_sync, now=now)
            for replica in leadership.replicas
            if replica != leadership.leader
        }
        self.proposal: InSyncProposal | None = None
        """The pending proposal; there is at most one."""

    def apply(self, leadership: Leadership, *, leader_end_offset: int, now: float) -> None:
        """Applies newer metadata of the same leader; the caller has compared partition epochs."""
        before = self.leadership
        self.leadership = leadership
        if leadership.partition_epoch > before.partition_epoch:
            self.proposal = None  # confirmed, or no longer applicable
        self.progress = {
            replica: self.progress.get(replica, NO_PROGRESS)
            for replica in leadership.replicas
            if replica != leadership.leader
        }
        if leadership.leader_epoch > before.leader_epoch:
            self.epoch_start_offset = leader_end_offset
            for replica in self.progress:
                self.progress[replica] = at_new_leader_epoch(
                    is_in_sync=replica in leadership.in_sync, now=now
                )

    # --- fetches

    def refusal_of_fetch(
        self, replica: int, broker_epoch: int, *, names_leader_epoch: bool
    ) -> ErrorCode | None:
        """Returns the error for a fetch that must not count as progress.

        A broker that is not a replica may know a reassignment that this leader does not know yet.
        A stale broker epoch belongs to an earlier process of the follower (KIP-903).
        """
        if replica not in self.progress:
            if names_leader_epoch:
                return ErrorCode.UNKNOWN_LEADER_EPOCH
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if broker_epoch != ANY_EPOCH:
            registered = self.epochs.live(replica)
            if registered is not None and registered > broker_epoch:
                return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return None

    def note_fetch(
        self,
        replica: int,
        *,
        fetch_offset: int,
        log_start_offset: int,
        broker_epoch: int,
        leader_end_offset: int,
        now: float,
    ) -> None:
        self.progress[replica] = after_fetch(
            self.progress[replica],
            fetch_offset=fetch_offset,
            log_start_offset=log_start_offset,
            broker_epoch=broker_epoch,
            leader_end_offset=leader_end_offset,
            now=now,
        )

    def note_idle_fetch(self, replica: int, fetched_at: float) -> None:
        """Notes a fetch from the same offset as before, at which the log ended until then."""
        progress = self.progress.get(replica)
        if progress is not None and fetched_at > progress.fetched_at:
            self.progress[replica] = progress._replace(
                fetched_at=fetched_at, caught_up_at=max(progress.caught_up_at, fetched_at)
            )

    # --- offsets

    @property
    def maximal(self) -> Collection[int]:
        """The committed in-sync set and the replicas that the leader proposes to add."""
        if self.proposal is None:
            return self.leadership.in_sync
        return {*self.leadership.in_sync, *self.proposal.replicas}

    def advanced_high_watermark(
        self,
        current: int,
        *,
        leader_end_offset: int,
        min_in_sync: int,
        now: float,
        lag_seconds_max: float,
    ) -> int:
        return advanced_high_watermark(
            current,
            leader_end_offset=leader_end_offset,
            committed=self.leadership.in_sync,
            proposed=() if self.proposal is None else self.proposal.replicas,
            followers=self.progress,
            min_in_sync=min_in_sync,
            now=now,
            lag_seconds_max=lag_seconds_max,
            joining_epoch=self.epochs.joining,
        )

    def low_watermark(self, leader_start_offset: int) -> int:
        return low_watermark(leader_start_offset, self.progress, self.epochs.live)

    # --- changes of the in-sync set

    def propose_to_add(self, replica: int, *, high_watermark: int) -> InSyncProposal | None:
        """Returns a new pending proposal if the follower has caught up."""
        committed = self.leadership.in_sync
        if self.proposal is not None or not may_join(
            replica,
            self.progress[replica],
            committed=committed,
            high_watermark=high_watermark,
            epoch_start_offset=self.epoch_start_offset,
            joining_epoch=self.epochs.joining,
        ):
            return None
        return self._propose((*committed, replica))

    def propose_to_remove(
        self, *, leader_end_offset: int, now: float, lag_seconds_max: float
    ) -> InSyncProposal | None:
        """Returns a new pending proposal without the replicas that lag for too long."""
        if self.proposal is not None:
            return None
        removed = out_of_sync(
            self.leadership.in_sync,
            self.progress,
            leader=self.leadership.leader,
            leader_end_offset=leader_end_offset,
            now=now,
            lag_seconds_max=lag_seconds_max,
        )
        if not removed:
            return None
        return self._propose(tuple(it for it in self.leadership.in_sync if it not in removed))

    def _propose(self, in_sync: tuple[int, ...]) -> InSyncProposal:
        leadership = self.leadership
        self.proposal = InSyncProposal(
            in_sync=with_broker_epochs(
                in_sync, self.progress, leader=leadership.leader, own_epoch=self.epochs.own_epoch
            ),
            leader_epoch=leadership.leader_epoch,
            partition_epoch=leadership.partition_epoch,
            leader_recovery_state=RECOVERED,
        )
        return self.proposal

    def settle(self, proposal: InSyncProposal, outcome: ProposalOutcome) -> RefusalEffect | None:
        """Applies the outcome of a proposal; returns the effect of a refusal.

        Returns None for a success, and for an outcome of a proposal that is no longer pending.
        """
        if proposal is not self.proposal:
            return None
        if isinstance(outcome, ErrorCode):
            effect = effect_of_refusal(outcome)
            if effect is RefusalEffect.DROP:
                self.proposal = None
            return effect
        if is_current(
            outcome,
            leader_epoch=self.leadership.leader_epoch,
            partition_epoch=self.leadership.partition_epoch,
        ):
            self.proposal = None
            self.leadership = replace(
                self.leadership,
                in_sync=outcome.in_sync,
                partition_epoch=outcome.partition_epoch,
                recovery_state=outcome.leader_recovery_state,
            )
        return None
