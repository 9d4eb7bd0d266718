"""Sound histories, made by chance, have no findings; a planted anomaly gives exactly its own."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykbroker.testing.history import Anomaly, History, check
from tests.testing.history.cluster import Cluster
from tests.testing.history.plants import PLANTS, NoRoomError, refused_read

if TYPE_CHECKING:
    from pykbroker.testing.history import Event, Finding
    from tests.testing.history.plants import Plant

SEEDS = st.integers(0, 2**32)
STEPS = 150


def history_of(events: list[Event]) -> History:
    history = History()
    history.events = events
    return history


def shown(findings: list[Finding]) -> str:
    return "\n".join(map(str, findings))


@settings(max_examples=60, deadline=None)
@given(seed=SEEDS, steps=st.integers(0, 400))
def test_sound_histories_have_no_findings(seed: int, steps: int) -> None:
    findings = check(Cluster(Random(seed)).play(steps))
    assert not findings, shown(findings)


@pytest.mark.parametrize("anomaly", Anomaly, ids=str)
@settings(max_examples=15, deadline=None)
@given(seed=SEEDS)
def test_a_planted_anomaly_gives_exactly_its_finding(anomaly: Anomaly, seed: int) -> None:
    expect_exactly(anomaly, PLANTS[anomaly], seed)


@settings(max_examples=15, deadline=None)
@given(seed=SEEDS)
def test_a_refused_record_that_is_read_counts_as_aborted(seed: int) -> None:
    expect_exactly(Anomaly.ABORTED_READ, refused_read, seed)


def expect_exactly(anomaly: Anomaly, plant: Plant, seed: int) -> None:
    chance = Random(seed)
    events = Cluster(chance).play(STEPS).events
    try:
        planted = plant(events, chance)
    except NoRoomError:
        return
    findings = check(history_of(planted))
    assert {it.anomaly for it in findings} == {anomaly}, shown(findings)


def test_there_is_a_plant_for_every_anomaly_and_most_histories_have_room_for_it() -> None:
    assert set(PLANTS) == set(Anomaly)
    planted: Counter[Anomaly] = Counter()
    for seed in range(20):
        chance = Random(seed)
        events = Cluster(chance).play(STEPS).events
        for anomaly, plant in PLANTS.items():
            with suppress(NoRoomError):
                plant(events, chance)
                planted[anomaly] += 1
    assert min(planted[it] for it in Anomaly) > 5, planted
