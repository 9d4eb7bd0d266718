"""Logs that diverge are truncated to their common prefix, by leader epochs."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykbroker.replication.truncation import (
    FetchPosition,
    OutOfRange,
    after_out_of_range,
    end_after_divergence,
    fetch_position,
)
from pykbroker_storage.leader_epochs import UNKNOWN_END, EpochEnd, LeaderEpochs


def epochs(*entries: tuple[int, int]) -> LeaderEpochs:
    """Leader epochs from pairs of epoch and start offset."""
    found = LeaderEpochs()
    for epoch, start_offset in entries:
        found.assign(epoch, start_offset)
    return found


# Epochs of the follower, its log end, what the leader reports, the end after truncation.
DIVERGENCES = (
    # The leader's epoch ends before that of the follower.
    (epochs((1, 0)), 10, EpochEnd(1, 7), 7),
    # The follower has an epoch that the leader has not.
    (epochs((1, 0), (2, 6)), 10, EpochEnd(1, 8), 6),
    (epochs((1, 0), (2, 6)), 10, EpochEnd(1, 4), 4),
    # The follower does not have the reported epoch: it ends its previous one.
    (epochs((1, 0), (4, 6)), 10, EpochEnd(3, 8), 6),
    (epochs((1, 0), (2, 3), (5, 6)), 10, EpochEnd(4, 8), 6),
    # All epochs of the follower are later: its log starts anew.
    (epochs((4, 5)), 10, EpochEnd(2, 8), 5),
    (epochs((4, 5)), 10, EpochEnd(2, 3), 3),
    # The leader has more of the epoch than the follower.
    (epochs((1, 0), (2, 6)), 10, EpochEnd(2, 30), 10),
    # No epochs are known.
    (epochs(), 10, EpochEnd(2, 8), 8),
)


@pytest.mark.parametrize(("own", "log_end", "diverging", "expected"), DIVERGENCES)
def test_a_log_ends_at_the_last_common_epoch(
    own: LeaderEpochs, log_end: int, diverging: EpochEnd, expected: int
) -> None:
    assert end_after_divergence(diverging, own, log_end) == expected


@pytest.mark.parametrize(
    ("leader_start", "leader_end", "log_end", "expected"),
    [
        (0, 5, 10, OutOfRange(5, is_new_log=False)),
        (20, 30, 10, OutOfRange(20, is_new_log=True)),
        (0, 30, 10, OutOfRange(10, is_new_log=False)),
        (10, 30, 10, OutOfRange(10, is_new_log=False)),
        (20, 20, 10, OutOfRange(20, is_new_log=True)),
    ],
)
def test_offset_out_of_range_is_resolved_by_the_offsets_of_the_leader(
    leader_start: int, leader_end: int, log_end: int, expected: OutOfRange
) -> None:
    assert after_out_of_range(leader_start, leader_end, log_end) == expected


@dataclass
class Replica:
    """Records as pairs of epoch and number, which is unique."""

    records: list[tuple[int, int]] = field(default_factory=list)
    epochs: LeaderEpochs = field(default_factory=LeaderEpochs)
    epoch: int = -1
    """The epoch in which this replica leads."""

    @property
    def end(self) -> int:
        return len(self.records)

    def lead(self, epoch: int) -> None:
        self.epoch = epoch
        self.epochs.assign(epoch, self.end)

    def add(self, records: list[tuple[int, int]]) -> None:
        for record in records:
            self.epochs.assign(record[0], self.end)
            self.records.append(record)

    def divergence(self, position: FetchPosition) -> EpochEnd | None:
        """The rule of a leader for a Fetch (KIP-595)."""
        if position.last_fetched_epoch < 0:
            return None
        found = self.epochs.end_offset_for(position.last_fetched_epoch, self.end)
        assert found != UNKNOWN_END, "a follower knows no later epoch than its leader"
        if found.epoch < position.last_fetched_epoch or found.end_offset < position.offset:
            return found
        return None

    def fetch_from(self, leader: Replica, count: int) -> None:
        position = fetch_position(self.epochs, self.end)
        diverging = leader.divergence(position)
        if diverging is None:
            self.add(leader.records[position.offset : position.offset + count])
        else:
            end = end_after_divergence(diverging, self.epochs, self.end)
            before = self.epochs.entries(), self.end
            del self.records[end:]
            self.epochs.truncate_from_end(self.end)
            assert (self.epochs.entries(), self.end) != before, "a divergence must change the log"


@given(st.data())
def test_a_follower_ends_with_the_log_of_its_leader_after_any_history(data: st.DataObject) -> None:
    replicas = [Replica() for _ in range(3)]
    leader, epoch, number = replicas[0], 0, 0
    leader.lead(0)
    for _ in range(data.draw(st.integers(0, 40))):
        match data.draw(st.sampled_from(["elect", "append", "fetch", "fetch"])):
            case "elect":
                epoch += data.draw(st.integers(1, 2))
                leader = data.draw(st.sampled_from(replicas))
                leader.lead(epoch)
            case "append":
                for _ in range(data.draw(st.integers(1, 3))):
                    number += 1
                    leader.add([(leader.epoch, number)])
            case _:
                follower = data.draw(st.sampled_from(replicas))
                if follower is not leader:
                    follower.fetch_from(leader, data.draw(st.integers(1, 3)))
        assert_same_epoch_means_same_prefix(replicas)
    for follower in replicas:
        if follower is not leader:
            for _ in range(200):
                follower.fetch_from(leader, 3)
            assert follower.records == leader.records


def assert_same_epoch_means_same_prefix(replicas: list[Replica]) -> None:
    first = replicas[0].records
    for other in replicas[1:]:
        for offset in range(min(len(first), len(other.records)) - 1, -1, -1):
            if first[offset][0] == other.records[offset][0]:
                assert first[: offset + 1] == other.records[: offset + 1]
                break
