"""The speed guard warns of every truck that is too fast, also when the broker fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from speed_guard import POSITIONS, WARNINGS, InBackground, SpeedGuard

from pykbroker.testing.matchers import a_record, in_any_order

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pykbroker import Broker

pytestmark = pytest.mark.kafka(topics={POSITIONS: 4, WARNINGS: 1})

LIMIT_KMH = 80


def drive(kafka: Broker, speeds: Iterable[int]) -> None:
    """Produces one report per truck."""
    reports = [{"truck": f"truck-{number}", "kmh": kmh} for number, kmh in enumerate(speeds)]
    kafka.produce(POSITIONS, reports, key="truck")


def guard(kafka: Broker, name: str = "guard") -> InBackground:
    return InBackground(SpeedGuard(kafka.bootstrap, limit_kmh=LIMIT_KMH, name=name))


def test_too_fast_trucks_get_warnings(kafka: Broker) -> None:
    drive(kafka, [80, 81, 50, 95])
    with guard(kafka):
        warnings = kafka.wait_for(WARNINGS, count=2)
    assert warnings == in_any_order(
        [
            a_record({"truck": "truck-1", "over_kmh": 1}, key="truck-1"),
            a_record({"truck": "truck-3", "over_kmh": 15}, key="truck-3"),
        ]
    )


def test_invalid_positions_are_skipped(kafka: Broker) -> None:
    odd = [None, b"", b"{}", b"[1]", b'{"truck": "a", "kmh": NaN}', b'{"truck": "a", "kmh": 1e999}']
    kafka.produce(POSITIONS, [*odd, 100_000 * b"["])
    drive(kafka, [90])
    with guard(kafka):
        (warning,) = kafka.wait_for(WARNINGS, count=1)
    assert warning == a_record({"truck": "truck-0", "over_kmh": 10}, key="truck-0")


def test_restarted_guard_continues_from_committed_offsets(kafka: Broker) -> None:
    drive(kafka, [90])
    with guard(kafka):
        kafka.wait_for(WARNINGS, count=1)
    drive(kafka, [100])
    with guard(kafka):
        warnings = kafka.wait_for(WARNINGS, count=2)
    assert [it.json()["over_kmh"] for it in warnings] == [10, 20]
    assert sum(kafka.offsets("speed-guards").values()) == 2


def test_warning_is_written_after_a_leader_change(kafka: Broker) -> None:
    drive(kafka, [90])
    with (
        kafka.faults.refuse("PRODUCE", "NOT_LEADER_OR_FOLLOWER", topic=WARNINGS, times=2),
        guard(kafka),
    ):
        assert len(kafka.wait_for(WARNINGS, count=1)) == 1


def test_lost_response_does_not_duplicate_a_warning(kafka: Broker) -> None:
    drive(kafka, [90])
    with kafka.faults.lose_answer("PRODUCE", topic=WARNINGS, times=1):
        with guard(kafka):
            kafka.wait_for(WARNINGS, count=1)
        drive(kafka, [85])
        with guard(kafka):
            warnings = kafka.wait_for(WARNINGS, count=2)
    assert [it.json()["over_kmh"] for it in warnings] == [10, 5]


def test_guard_continues_after_a_crash_of_the_broker(kafka: Broker) -> None:
    with guard(kafka):
        drive(kafka, [90])
        kafka.wait_for(WARNINGS, count=1)
        kafka.crash()
        drive(kafka, [100])
        warnings = kafka.wait_for(WARNINGS, count=2, timeout_seconds=30)
    assert [it.json()["over_kmh"] for it in warnings] == [10, 20]


def test_guard_takes_over_from_an_unreachable_one(kafka: Broker) -> None:
    with guard(kafka, "lost"):
        drive(kafka, [90])
        kafka.wait_for(WARNINGS, count=1)
        with kafka.faults.drop(None, client="lost"), guard(kafka, "found"):
            kafka.clock.advance(minutes=1)  # its session expires
            drive(kafka, [90] * 8)
            kafka.wait_for(WARNINGS, count=9, timeout_seconds=30)


def test_positions_are_deleted_after_a_week(kafka: Broker) -> None:
    drive(kafka, [80, 80])
    kafka.clock.advance(days=8)
    assert kafka.records(POSITIONS) == []
