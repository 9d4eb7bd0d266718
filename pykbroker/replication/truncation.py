"""Decides where the log of a follower ends, after its leader has reported a divergence.

A log diverges if it has records that the new leader does not have. Leader epochs determine the
offset. The high watermark does not: records above it can be committed (KIP-101, KIP-279, KIP-595).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from pykbroker_storage.leader_epochs import NO_EPOCH

if TYPE_CHECKING:
    from pykbroker_storage.leader_epochs import EpochEnd


class Epochs(Protocol):
    """The leader epochs of a log."""

    @property
    def latest_epoch(self) -> int: ...
    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEnd: ...


class FetchPosition(NamedTuple):
    """The end of a log in a Fetch, by which the leader finds a divergence."""

    offset: int
    last_fetched_epoch: int
    """Epoch of the last record; -1 for a log without records, which cannot diverge."""


def fetch_position(epochs: Epochs, log_end_offset: int) -> FetchPosition:
    return FetchPosition(log_end_offset, epochs.latest_epoch)


def end_after_divergence(diverging: EpochEnd, epochs: Epochs, log_end_offset: int) -> int:
    """Returns the offset to truncate to, for the epoch and end offset that a leader reported.

    The leader reports the last of its epochs that is not later than that of the follower, with its
    end. If the follower does not have this epoch, it truncates to the end of its previous one; the
    next Fetch then compares that epoch.
    """
    own = epochs.end_offset_for(diverging.epoch, log_end_offset)
    if own.epoch == NO_EPOCH or own.epoch > diverging.epoch:
        return min(diverging.end_offset, log_end_offset)
    if own.epoch < diverging.epoch:
        return min(own.end_offset, log_end_offset)
    return min(own.end_offset, diverging.end_offset, log_end_offset)


class OutOfRange(NamedTuple):
    """The offset at which a follower continues after OFFSET_OUT_OF_RANGE."""

    offset: int
    is_new_log: bool
    """True if all its records are deleted and the log starts at `offset`."""


def after_out_of_range(leader_start: int, leader_end: int, log_end_offset: int) -> OutOfRange:
    """Decides by the leader's offsets how to continue after OFFSET_OUT_OF_RANGE, as in Kafka.

    The leader ends before the follower after an unclean election. It starts after the end of the
    follower if its retention has deleted records that the follower lacks.
    """
    if leader_end < log_end_offset:
        return OutOfRange(leader_end, is_new_log=False)
    if leader_start > log_end_offset:
        return OutOfRange(leader_start, is_new_log=True)
    return OutOfRange(log_end_offset, is_new_log=False)
