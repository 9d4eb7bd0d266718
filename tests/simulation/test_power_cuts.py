"""What one node promises: a killed process loses nothing, a power cut what was not flushed."""

from __future__ import annotations

import pytest

from pykbroker.testing.history import Anomaly, check, expect_sound
from pykbroker.testing.simulation import Kind, seeds
from tests.simulation.plays import FLUSHES_EACH_WRITE, play_crashes, play_cuts_and_readers

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", seeds(4))
def test_a_killed_process_loses_nothing_however_little_is_flushed(seed: int) -> None:
    expect_sound(play_crashes(seed, Kind.KILL, config={}).history)


@pytest.mark.parametrize("seed", seeds(4))
def test_a_power_cut_loses_nothing_when_each_write_is_flushed(seed: int) -> None:
    expect_sound(play_crashes(seed, Kind.POWER_CUT, config=FLUSHES_EACH_WRITE).history)


@pytest.mark.parametrize("seed", seeds(4))
def test_a_power_cut_after_failed_flushes_loses_nothing_that_was_acknowledged(seed: int) -> None:
    kinds = (Kind.POWER_CUT, Kind.DISK_ERROR, Kind.DISK_FULL)
    expect_sound(play_crashes(seed, *kinds, config=FLUSHES_EACH_WRITE).history)


@pytest.mark.parametrize("seed", seeds(4))
def test_what_a_power_cut_leaves_is_in_order(seed: int) -> None:
    """Without flushing, records may go; what is left was sent, once, in order, as it was sent."""
    cast = play_crashes(seed, Kind.POWER_CUT, config={})
    # Offsets of what was lost are given again: one offset may have had two records.
    lost = {Anomaly.LOST_WRITE, Anomaly.UNSEEN, Anomaly.INCONSISTENT_OFFSETS}
    assert check(cast.history, allowed=lost) == []


@pytest.mark.parametrize("seed", seeds(8))
def test_a_reader_comes_to_the_end_of_what_a_power_cut_leaves(seed: int) -> None:
    play_cuts_and_readers(seed)


def test_a_power_cut_does_lose_what_was_not_flushed() -> None:
    """Or the promise above would be tested by a disk that loses nothing."""
    found = {
        finding.anomaly
        for seed in range(10)
        for finding in check(play_crashes(seed, Kind.POWER_CUT, config={}).history)
    }
    assert Anomaly.LOST_WRITE in found or Anomaly.UNSEEN in found
