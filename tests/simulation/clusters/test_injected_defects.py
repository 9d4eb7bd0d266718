"""The simulation finds defects that are injected into replication."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pykbroker.apis import list_offsets
from pykbroker.apis.fetch_operation import FetchOperation
from pykbroker.partitions import follower
from pykbroker.partitions.followers import Followers
from pykbroker.partitions.leader import Leader
from pykbroker.partitions.leader_context import LeaderContext
from pykbroker.replication.followed_partition import FollowedPartition
from pykbroker.replication.replica_fetcher import ReplicaFetcher
from pykbroker.testing.simulation import Kind
from tests.simulation.clusters.scenarios import Run, play

if TYPE_CHECKING:
    from collections.abc import Callable

    from pykbroker.partitions.leadership import Leadership
    from pykbroker.partitions.partition import Partition
    from pykbroker_storage.leader_epochs import EpochEnd

pytestmark = pytest.mark.slow

SEEDS_MAX = 150
STOPS = Run(kinds=(Kind.KILL, Kind.RESTART, Kind.POWER_CUT), every_seconds=2)
ELECTIONS = Run(
    kinds=(Kind.PAUSE, Kind.PARTITION, Kind.PARTIAL_PARTITION, Kind.KILL),
    every_seconds=1.5,
    pause_seconds=0.5,
    records=80,
    weak_writers=1,
)

LAG = replace(ELECTIONS, kinds=(Kind.PARTIAL_PARTITION, Kind.KILL), lag_seconds=15.0)
"""Replicas that lag stay in the in-sync set for a long time."""


def expect_found(run: Run, shows: Callable[[str], bool], *, found_at: int) -> None:
    """Plays seeds until a report shows the defect.

    The search begins at the seed that found the defect when the test was written; it is valid until
    the code changes.
    """
    for seed in sorted(range(SEEDS_MAX), key=lambda it: it != found_at):
        try:
            play(seed, run)
        except AssertionError as error:
            if shows(str(error)):
                return
    raise AssertionError(f"none of {SEEDS_MAX} seeds finds it")


def reports_a_loss(found: str) -> bool:
    names = ("lost write", "inconsistent offsets", "unseen", "replicas differ", "went back")
    return any(name in found for name in names)


def test_truncation_to_the_high_watermark_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before KIP-101, a follower removed all records that it did not know to be committed."""
    true_follow = ReplicaFetcher.follow

    def follow(self: ReplicaFetcher, partition: Partition) -> None:
        follower.truncate_to(partition, partition.high_watermark, self.id.leader, 0)
        true_follow(self, partition)

    async def do_not_truncate(_: FollowedPartition, __: EpochEnd) -> None: ...

    monkeypatch.setattr(ReplicaFetcher, "follow", follow)
    monkeypatch.setattr(FollowedPartition, "truncate_after_divergence", do_not_truncate)
    expect_found(STOPS, reports_a_loss, found_at=11)


def test_acknowledging_before_the_in_sync_set_has_a_record_is_detected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def advance(self: Leader) -> None:
        self.partition.set_high_watermark(self.partition.settled_offset)

    monkeypatch.setattr(Leader, "advance_high_watermark", advance)
    expect_found(ELECTIONS, reports_a_loss, found_at=37)


def test_a_stale_in_sync_set_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader that does not wait for added replicas loses records when one of them leads."""
    true_init: Any = Followers.__init__

    def init(self: Followers, leadership: Leadership, *given: Any, **named: Any) -> None:
        true_init(self, leadership, *given, **named)
        first[id(self)] = self, leadership.in_sync

    def advance(self: Followers, current: int, *, leader_end_offset: int, **_: Any) -> int:
        in_sync = first[id(self)][1]
        ends = [it.log_end_offset for replica, it in self.progress.items() if replica in in_sync]
        return max(current, min([leader_end_offset, *ends]))

    first: dict[int, tuple[Followers, tuple[int, ...]]] = {}
    monkeypatch.setattr(Followers, "__init__", init)
    monkeypatch.setattr(Followers, "advanced_high_watermark", advance)
    expect_found(LAG, reports_a_loss, found_at=38)


def test_skipping_the_epoch_check_of_fetch_responses_is_detected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A follower then appends records of a leader that another one has replaced."""
    monkeypatch.setattr(FollowedPartition, "is_current", property(lambda _: True))
    monkeypatch.setattr(FollowedPartition, "is_answer_to", lambda *_: True)
    expect_found(ELECTIONS, lambda _: True, found_at=33)


def test_skipping_the_epoch_check_of_fetches_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it, followers keep records that their new leader does not have."""
    monkeypatch.setattr(FetchOperation, "divergence", lambda *_: None)
    expect_found(ELECTIONS, reports_a_loss, found_at=56)


def test_a_fenced_leader_that_acknowledges_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LeaderContext, "has_session", property(lambda _: True))
    expect_found(ELECTIONS, lambda it: "after its fencing" in it, found_at=1)


def test_a_latest_offset_before_the_start_of_the_epoch_is_detected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """KIP-207: the high watermark of a new leader can be older than that of the previous one."""
    monkeypatch.setattr(list_offsets, "is_available", lambda *_: True)
    run = replace(ELECTIONS, read_seconds=0.1)
    expect_found(run, lambda it: "went back" in it, found_at=2)
