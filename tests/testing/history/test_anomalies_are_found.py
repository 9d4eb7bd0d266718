"""Random valid histories have no findings; an injected anomaly is the only finding."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykbroker.testing.history import Anomaly, History, check
from tests.testing.history.injected_anomalies import INJECTIONS, NotApplicableError, refused_read
from tests.testing.history.simulated_cluster import Cluster

if TYPE_CHECKING:
    from pykbroker.testing.history import Event, Finding
    from tests.testing.history.injected_anomalies import Injection

SEEDS = st.integers(0, 2**32)
STEPS = 150


def history_of(events: list[Event]) -> History:
    history = History()
    history.events = events
    return history


def shown(findings: list[Finding]) -> str:
    return "\n".join(map(str, findings))


@settings(max_examples=60)
@given(seed=SEEDS, steps=st.integers(0, 400))
def test_valid_histories_have_no_findings(seed: int, steps: int) -> None:
    findings = check(Cluster(Random(seed)).play(steps))
    assert not findings, shown(findings)


@pytest.mark.parametrize("anomaly", Anomaly, ids=str)
@settings(max_examples=15)
@given(seed=SEEDS)
def test_an_injected_anomaly_is_the_only_finding(anomaly: Anomaly, seed: int) -> None:
    expect_exactly(anomaly, INJECTIONS[anomaly], seed)


@settings(max_examples=15)
@given(seed=SEEDS)
def test_a_rejected_record_that_is_read_is_an_aborted_read(seed: int) -> None:
    expect_exactly(Anomaly.ABORTED_READ, refused_read, seed)


def expect_exactly(anomaly: Anomaly, inject: Injection, seed: int) -> None:
    chance = Random(seed)
    events = Cluster(chance).play(STEPS).events
    try:
        injected = inject(events, chance)
    except NotApplicableError:
        return
    findings = check(history_of(injected))
    assert {it.anomaly for it in findings} == {anomaly}, shown(findings)


def test_every_anomaly_can_be_injected_into_some_histories() -> None:
    assert set(INJECTIONS) == set(Anomaly)
    injected: Counter[Anomaly] = Counter()
    for seed in range(20):
        chance = Random(seed)
        events = Cluster(chance).play(STEPS).events
        for anomaly, inject in INJECTIONS.items():
            with suppress(NotApplicableError):
                inject(events, chance)
                injected[anomaly] += 1
    assert min(injected[it] for it in Anomaly) > 5, injected
