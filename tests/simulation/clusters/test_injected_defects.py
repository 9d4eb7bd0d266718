"""The simulation finds defects that are injected into replication."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pykbroker.apis import list_offsets
from pykbroker.partitions import follower
from pykbroker.partitions.followers import Followers
from pykbroker.partitions.leader import Leader
from pykbroker.partitions.leader_context import LeaderContext
from pykbroker.partitions.partition import Partition
from pykbroker.replication.followed_partition import FollowedPartition
from pykbroker.replication.replica_fetcher import ReplicaFetcher
from pykbroker.testing.simulation import Kind
from pykbroker_protocol.errors import ErrorCode, Refusal
from tests.simulation.clusters.scenarios import Run, play

if TYPE_CHECKING:
    from collections.abc import Collection

    from pykbroker.partitions.leadership import Leadership
    from pykbroker_storage.leader_epochs import EpochEnd

pytestmark = pytest.mark.slow

SEEDS_MAX = 150
STOPS = Run(kinds=(Kind.KILL, Kind.RESTART, Kind.POWER_CUT), every_seconds=2)
ELECTIONS = Run(
    kinds=(Kind.PAUSE, Kind.PARTITION, Kind.CONTROLLER, Kind.KILL), every_seconds=2, weak_writers=1
)


def first_seed_that_fails(run: Run) -> str:
    """The error message and its notes, which contain the seed."""
    for seed in range(SEEDS_MAX):
        try:
            play(seed, run)
        except AssertionError as error:
            return "\n".join([str(error), *getattr(error, "__notes__", ())])
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
    assert reports_a_loss(first_seed_that_fails(STOPS))


def test_acknowledging_before_the_in_sync_set_has_a_record_is_detected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def advance(self: Leader) -> None:
        self.partition.set_high_watermark(self.partition.settled_offset)

    monkeypatch.setattr(Leader, "advance_high_watermark", advance)
    assert reports_a_loss(first_seed_that_fails(ELECTIONS))


def test_a_stale_in_sync_set_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader that ignores additions does not wait for replicas that can be elected."""
    true_apply = Followers.apply

    def apply(self: Followers, leadership: Leadership, **given: Any) -> None:
        true_apply(self, leadership, **given)
        known = [it for it in self.leadership.in_sync if it in known_at_first(self)]
        object.__setattr__(self.leadership, "in_sync", tuple(known))

    def known_at_first(self: Followers) -> Collection[int]:
        return first.setdefault(id(self), self.leadership.in_sync)

    first: dict[int, tuple[int, ...]] = {}
    monkeypatch.setattr(Followers, "apply", apply)
    assert reports_a_loss(first_seed_that_fails(ELECTIONS))


def test_skipping_the_epoch_check_of_fetch_responses_is_detected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A follower then appends records of a leader that another one has replaced."""
    monkeypatch.setattr(FollowedPartition, "is_current", property(lambda _: True))
    monkeypatch.setattr(FollowedPartition, "is_answer_to", lambda *_: True)
    assert first_seed_that_fails(ELECTIONS)


def test_skipping_the_epoch_check_of_fetches_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader of an old epoch then counts the fetches of followers of the next leader."""

    def refuse(self: Partition, _: int) -> Refusal | None:
        return None if self.leads else Refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    monkeypatch.setattr(Partition, "epoch_refusal", refuse)
    assert reports_a_loss(first_seed_that_fails(ELECTIONS))


def test_a_fenced_leader_that_acknowledges_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LeaderContext, "has_session", property(lambda _: True))
    assert "after its fencing" in first_seed_that_fails(ELECTIONS)


def test_a_latest_offset_before_the_start_of_the_epoch_is_detected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """KIP-207: the high watermark of a new leader can be older than that of the previous one."""
    monkeypatch.setattr(list_offsets, "is_available", lambda *_: True)
    assert "went back" in first_seed_that_fails(ELECTIONS)
