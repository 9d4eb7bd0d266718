"""The simulation finds defects that are injected into the broker."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pykbroker.coordination.groups import consumer_reconciliation
from pykbroker.partitions.leader import Leader
from pykbroker.partitions.partition import Partition
from pykbroker.testing.history import expect_sound
from pykbroker.testing.simulation import Kind
from pykbroker_protocol.errors import Refusal
from pykbroker_storage import recovery
from pykbroker_storage.log import AppendResult, Log
from pykbroker_storage.producer_state import ProducerStates
from pykbroker_storage.segments import Segments
from tests.simulation.scenarios import (
    FLUSHES_EACH_WRITE,
    play_crashes,
    play_members,
    play_power_failures_and_readers,
    play_writers,
)

if TYPE_CHECKING:
    from collections.abc import Callable


pytestmark = pytest.mark.slow

SEEDS_MAX = 100


def first_seed_that_fails(play: Callable[[int], None]) -> str:
    """The error message and its notes, which contain the seed."""
    for seed in range(SEEDS_MAX):
        try:
            play(seed)
        except AssertionError as error:
            return "\n".join([str(error), *getattr(error, "__notes__", ())])
    raise AssertionError(f"none of {SEEDS_MAX} seeds finds it")


def test_missing_deduplication_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without deduplication, a retry after a lost response is appended twice."""
    monkeypatch.setattr(ProducerStates, "check", lambda *_, **__: None)
    assert "duplicate" in first_seed_that_fails(play_writers)


def test_acknowledging_a_failed_write_is_detected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    true_append = Leader.append_batch

    def append(self: Leader, batch: Any, now_ms: int) -> AppendResult | Refusal:
        written = true_append(self, batch, now_ms)
        if isinstance(written, Refusal):
            end = self.log.log_end_offset
            return AppendResult(end, end + batch.last_offset_delta, -1, self.log.log_start_offset)
        return written

    monkeypatch.setattr(Leader, "append_batch", append)
    assert reports_a_loss(first_seed_that_fails(play_writers))


def test_assigning_a_partition_before_its_revocation_is_detected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    true_take = consumer_reconciliation.add_free_partitions

    def take(kept: Any, goal: Any) -> Any:
        return true_take(kept, replace(goal, is_free=lambda *_: True))

    monkeypatch.setattr(consumer_reconciliation, "add_free_partitions", take)
    assert "was given partition" in first_seed_that_fails(play_members)


def test_keeping_empty_segments_after_a_gap_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log then ends at the last empty segment, which no reader reaches."""
    monkeypatch.setattr(recovery, "_remove_empty", lambda *_: None)
    assert "a reader waits at the end" in first_seed_that_fails(play_power_failures_and_readers)


def test_a_flush_without_effect_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    true_flush = Log.flush

    def flush(self: Log, upto: int | None = None) -> None:
        if self.configuration.forbids_data_loss:  # the metadata log: a start needs it
            true_flush(self, upto)
        else:
            self.recovery_point = self.log_end_offset if upto is None else upto

    monkeypatch.setattr(Log, "flush", flush)
    assert reports_a_loss(first_seed_that_fails(play_power_failures))


def play_power_failures(seed: int, *more: Kind) -> None:
    """Power losses with a flush before each response."""
    kinds = (Kind.POWER_CUT, *more)
    expect_sound(play_crashes(seed, *kinds, config=FLUSHES_EACH_WRITE).history)


def reports_a_loss(found: str) -> bool:
    return "lost write" in found or "inconsistent offsets" in found or "unseen" in found


def test_responding_before_the_flush_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Partition, "settled_offset", property(lambda it: it.log.log_end_offset))
    assert reports_a_loss(first_seed_that_fails(play_power_failures))


def test_trusting_a_flush_after_a_failed_flush_is_detected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Linux marks the pages of a failed fsync clean; the next fsync succeeds without them."""
    monkeypatch.setattr(Segments, "rewrite_in_place", lambda *_: None)
    assert reports_a_loss(
        first_seed_that_fails(lambda it: play_power_failures(it, Kind.DISK_ERROR))
    )
