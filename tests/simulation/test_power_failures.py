"""A killed process loses no acknowledged record; a power loss loses only unflushed records."""

from __future__ import annotations

import pytest

from pykbroker.testing.history import Anomaly, check, expect_sound
from pykbroker.testing.simulation import Kind, seeds
from tests.simulation.scenarios import (
    FLUSHES_EACH_WRITE,
    play_crashes,
    play_power_failures_and_readers,
)

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", seeds(4))
def test_a_killed_process_loses_no_acknowledged_record(seed: int) -> None:
    expect_sound(play_crashes(seed, Kind.KILL, config={}).history)


@pytest.mark.parametrize("seed", seeds(4))
def test_a_power_failure_loses_nothing_when_each_write_is_flushed(seed: int) -> None:
    expect_sound(play_crashes(seed, Kind.POWER_CUT, config=FLUSHES_EACH_WRITE).history)


@pytest.mark.parametrize("seed", seeds(4))
def test_a_power_failure_after_failed_flushes_loses_no_acknowledged_record(seed: int) -> None:
    kinds = (Kind.POWER_CUT, Kind.DISK_ERROR, Kind.DISK_FULL)
    expect_sound(play_crashes(seed, *kinds, config=FLUSHES_EACH_WRITE).history)


@pytest.mark.parametrize("seed", seeds(4))
def test_records_after_a_power_failure_are_in_order_and_unique(seed: int) -> None:
    """Unflushed records can be lost; the remaining records are in order and without duplicates."""
    clients = play_crashes(seed, Kind.POWER_CUT, config={})
    # Offsets of lost records are assigned again: one offset may have had two records.
    lost = {Anomaly.LOST_WRITE, Anomaly.UNSEEN, Anomaly.INCONSISTENT_OFFSETS}
    assert check(clients.history, allowed=lost) == []


@pytest.mark.parametrize("seed", seeds(8))
def test_a_reader_reaches_the_log_end_after_a_power_failure(seed: int) -> None:
    play_power_failures_and_readers(seed)


def test_a_power_failure_loses_unflushed_records() -> None:
    """Otherwise the tests above would prove nothing."""
    found = {
        finding.anomaly
        for seed in range(10)
        for finding in check(play_crashes(seed, Kind.POWER_CUT, config={}).history)
    }
    assert Anomaly.LOST_WRITE in found or Anomaly.UNSEEN in found
