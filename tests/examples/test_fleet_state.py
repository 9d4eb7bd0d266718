"""State of the dashboard: changes for browsers, and invalid records."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from examples.fleet.alerts import SILENCE
from examples.fleet.fleet_state import NEWS_KEPT, WINDOWS_KEPT, FleetState
from examples.fleet.notification_rules import Incident, Notification
from examples.fleet.reports import TRUCKS, Report, in_text
from examples.fleet.topics import ALERTS, NOTIFICATIONS, STATISTICS

MORNING = datetime(2026, 5, 4, 6, 0, tzinfo=UTC)


def report(truck: str, second: float, *, kmh: float = 80) -> bytes:
    at = MORNING + timedelta(seconds=second)
    return Report(truck_id=truck, reported_at=at, lat=50, lon=10, kmh=kmh, heading=0).encode()


def alert(truck: str, second: int) -> bytes:
    at = in_text(MORNING + timedelta(seconds=second))
    return json.dumps(
        {"truck_id": truck, "subject": SILENCE, "at": at, "lat": 50, "lon": 10}
    ).encode()


def notification(truck: str, second: int) -> bytes:
    at = MORNING + timedelta(seconds=second)
    incident = Incident(truck, SILENCE)
    return Notification(incident=incident, is_over=False, at=at, text=f"{truck} is silent").encode()


def statistic(truck: str, minute: int, *, reports: int = 15, kmh: float = 80) -> bytes:
    start = in_text(MORNING + timedelta(minutes=minute))
    found = {"truck_id": truck, "window_start": start, "reports": reports}
    return json.dumps(found | {"average_kmh": kmh, "top_kmh": kmh + 5}).encode()


def trucks_in(frame: dict[str, list[list[str]]]) -> list[str]:
    return [it[0] for it in frame["trucks"]]


def test_frame_contains_only_changes() -> None:
    state = FleetState()
    state.apply(TRUCKS, 0, report("truck-1", 0))
    state.apply(TRUCKS, 1, report("truck-2", 0))
    known = state.change
    state.apply(TRUCKS, 1, report("truck-2", 20))
    assert trucks_in(state.since(0)) == ["truck-1", "truck-2"]
    assert state.since(0)["reset"]
    assert trucks_in(state.since(known)) == ["truck-2"]
    assert not state.since(known)["reset"]
    assert trucks_in(state.since(state.change)) == []


def test_truck_is_silent_a_minute_behind_the_newest_report() -> None:
    state = FleetState()
    state.apply(TRUCKS, 0, report("truck-1", 0))
    state.apply(TRUCKS, 1, report("truck-2", 60))
    assert state.silent() == []
    state.apply(TRUCKS, 1, report("truck-2", 61))
    assert state.silent() == ["truck-1"]
    state.apply(TRUCKS, 0, report("truck-1", 62))
    assert state.silent() == []


def test_older_report_does_not_replace_a_newer_one() -> None:
    state = FleetState()
    state.apply(TRUCKS, 0, report("truck-1", 20, kmh=50))
    state.apply(TRUCKS, 0, report("truck-1", 0, kmh=70))
    assert state.trucks["truck-1"].report.kmh == 50


@pytest.mark.parametrize("topic", [TRUCKS, STATISTICS, ALERTS, NOTIFICATIONS, "another"])
@pytest.mark.parametrize("value", [None, b"", b"\xff", b"[]", b"7", b"null", b"{}", b'{"lat":'])
def test_invalid_records_are_ignored(topic: str, value: bytes | None) -> None:
    state = FleetState()
    state.apply(topic, 0, value)
    frame = state.since(0)
    assert (frame["trucks"], frame["news"]) == ([], [])
    assert frame["broken"] == frame["read"] == (topic == TRUCKS)


INVALID_VALUES = {
    "infinity": b"1e999",
    "NaN": b"NaN",
    "a number of 400 digits": b"1" + 400 * b"0",
    "a huge number": b"1e300",
    "a number as text": b'"Infinity"',
    "a lone surrogate": rb'"\ud800"',
    "a time without zone": b'"2026-05-04T06:00:00"',
    "a time before year 1": b'"0001-01-01T00:00:00+23:00"',
    "the minimum time": b'"0001-01-01T00:00:00Z"',
    "a list in a list": 100_000 * b"[",
}


@pytest.mark.parametrize("invalid", INVALID_VALUES.values(), ids=INVALID_VALUES)
def test_invalid_fields_are_ignored(invalid: bytes) -> None:
    for topic, good in (
        (TRUCKS, report("truck-1", 0)),
        (STATISTICS, statistic("truck-1", 0)),
        (ALERTS, alert("truck-1", 0)),
        (NOTIFICATIONS, notification("truck-1", 0)),
    ):
        for name, value in json.loads(good).items():
            state = FleetState()
            state.apply(topic, 0, good.replace(json.dumps(value).encode(), invalid, 1))
            state.apply(TRUCKS, 0, report("truck-2", 0))
            frame = json.dumps(state.since(0), allow_nan=False, ensure_ascii=False).encode()
            assert b"truck-2" in frame, name


def test_trucks_of_revoked_partitions_are_removed() -> None:
    state = FleetState()
    state.apply(TRUCKS, 0, report("truck-1", 0))
    state.apply(TRUCKS, 1, report("truck-2", 0))
    known = state.change
    state.remove_partitions({0})
    frame = state.since(known)
    assert frame["reset"]
    assert trucks_in(frame) == ["truck-2"]
    assert frame["read"] == 1


def test_statistics_of_trucks_are_aggregated() -> None:
    state = FleetState()
    state.apply(STATISTICS, 0, statistic("truck-1", 0, reports=15, kmh=80))
    state.apply(STATISTICS, 0, statistic("truck-2", 0, reports=5, kmh=40))
    state.apply(STATISTICS, 0, statistic("truck-2", 0, reports=5, kmh=40))  # at least once
    assert state.since(0)["windows"] == [
        {
            "start": in_text(MORNING),
            "trucks": 2,
            "reports": 20,
            "average_kmh": 70.0,
            "top_kmh": 85.0,
        }
    ]
    assert "windows" not in state.since(state.change)


def test_duplicate_alerts_and_notifications_are_shown_once() -> None:
    state = FleetState()
    for _ in range(2):
        state.apply(ALERTS, 0, alert("truck-1", 0))
        state.apply(NOTIFICATIONS, 0, notification("truck-1", 0))
    assert len(state.since(0)["news"]) == 1
    assert len(state.since(0)["alerts"]) == 1


def test_state_is_bounded() -> None:
    state = FleetState()
    for number in range(3 * NEWS_KEPT):
        state.apply(ALERTS, 0, alert("truck-1", number))
        state.apply(NOTIFICATIONS, 0, notification("truck-1", number))
        state.apply(STATISTICS, 0, statistic("truck-1", 5 * number))
    assert len(state.since(0)["alerts"]) == NEWS_KEPT
    assert len(state.since(0)["news"]) == NEWS_KEPT
    windows = state.since(0)["windows"]
    assert len(windows) == WINDOWS_KEPT
    assert windows[-1]["start"] == in_text(MORNING + timedelta(minutes=5 * (3 * NEWS_KEPT - 1)))
