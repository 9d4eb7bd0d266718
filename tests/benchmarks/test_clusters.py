"""Replicas and gaps of the benchmarks of clusters."""

import pytest

from benchmarks.clients.failover_producer import Gap
from benchmarks.clusters import BROKERS, rotated


def test_every_broker_leads_a_third_and_has_a_replica_of_all_partitions() -> None:
    replicas = rotated(6)
    assert [it[0] for it in replicas.values()] == [1, 2, 3, 1, 2, 3]
    assert all(sorted(it) == list(BROKERS) for it in replicas.values())


def test_the_longest_time_without_acknowledgement_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times = iter([100.0, 100.5, 103.5, 104.0, 104.2])
    monkeypatch.setattr("time.time", lambda: next(times))
    gap = Gap()
    gap.on_delivery(None, None)
    gap.on_delivery(None, None)
    gap.on_delivery("timed out", None)
    gap.on_delivery(None, None)
    assert (gap.began, gap.ended) == (100.5, 103.5)
    assert (gap.acknowledged, gap.failed) == (3, 1)
