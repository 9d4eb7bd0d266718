"""The dashboard's state: what a browser is told, and that nothing on a topic can stop it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from examples.fleet.alerts import SILENCE
from examples.fleet.fleet_state import NEWS_KEPT, WINDOWS_KEPT, FleetState
from examples.fleet.notification_rules import Matter, Notification
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
    matter = Matter(truck, SILENCE)
    return Notification(matter=matter, is_over=False, at=at, text=f"{truck} is silent").encode()


def statistic(truck: str, minute: int, *, reports: int = 15, kmh: float = 80) -> bytes:
    start = in_text(MORNING + timedelta(minutes=minute))
    found = {"truck_id": truck, "window_start": start, "reports": reports}
    return json.dumps(found | {"average_kmh": kmh, "top_kmh": kmh + 5}).encode()


def trucks_in(frame: dict[str, list[list[str]]]) -> list[str]:
    return [it[0] for it in frame["trucks"]]


def test_a_browser_is_told_only_what_is_new_to_it() -> None:
    state = FleetState()
    state.take(TRUCKS, 0, report("truck-1", 0))
    state.take(TRUCKS, 1, report("truck-2", 0))
    known = state.change
    state.take(TRUCKS, 1, report("truck-2", 20))
    assert trucks_in(state.since(0)) == ["truck-1", "truck-2"]
    assert state.since(0)["anew"]
    assert trucks_in(state.since(known)) == ["truck-2"]
    assert not state.since(known)["anew"]
    assert trucks_in(state.since(state.change)) == []


def test_a_truck_is_silent_when_the_others_have_gone_on_for_more_than_a_minute() -> None:
    state = FleetState()
    state.take(TRUCKS, 0, report("truck-1", 0))
    state.take(TRUCKS, 1, report("truck-2", 60))
    assert state.silent() == []
    state.take(TRUCKS, 1, report("truck-2", 61))
    assert state.silent() == ["truck-1"]
    state.take(TRUCKS, 0, report("truck-1", 62))
    assert state.silent() == []


def test_an_old_report_that_is_read_again_moves_no_truck_back() -> None:
    state = FleetState()
    state.take(TRUCKS, 0, report("truck-1", 20, kmh=50))
    state.take(TRUCKS, 0, report("truck-1", 0, kmh=70))
    assert state.trucks["truck-1"].report.kmh == 50


@pytest.mark.parametrize("topic", [TRUCKS, STATISTICS, ALERTS, NOTIFICATIONS, "another"])
@pytest.mark.parametrize("value", [None, b"", b"\xff", b"[]", b"7", b"null", b"{}", b'{"lat":'])
def test_nothing_on_a_topic_stops_the_dashboard(topic: str, value: bytes | None) -> None:
    state = FleetState()
    state.take(topic, 0, value)
    frame = state.since(0)
    assert (frame["trucks"], frame["news"]) == ([], [])
    assert frame["broken"] == frame["read"] == (topic == TRUCKS)


ODD = {
    "infinity": b"1e999",
    "NaN": b"NaN",
    "a number of 400 digits": b"1" + 400 * b"0",
    "a huge number": b"1e300",
    "a text of a number": b'"Infinity"',
    "half a letter": rb'"\ud800"',
    "a time without zone": b'"2026-05-04T06:00:00"',
    "a time before all others": b'"0001-01-01T00:00:00+23:00"',
    "the first moment": b'"0001-01-01T00:00:00Z"',
    "a list in a list": 100_000 * b"[",
}


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_an_odd_value_in_any_field_stops_nobody(odd: bytes) -> None:
    for topic, good in (
        (TRUCKS, report("truck-1", 0)),
        (STATISTICS, statistic("truck-1", 0)),
        (ALERTS, alert("truck-1", 0)),
        (NOTIFICATIONS, notification("truck-1", 0)),
    ):
        for name, value in json.loads(good).items():
            state = FleetState()
            state.take(topic, 0, good.replace(json.dumps(value).encode(), odd, 1))
            state.take(TRUCKS, 0, report("truck-2", 0))
            frame = json.dumps(state.since(0), allow_nan=False, ensure_ascii=False).encode()
            assert b"truck-2" in frame, name


def test_trucks_of_partitions_that_another_dashboard_shows_are_forgotten() -> None:
    state = FleetState()
    state.take(TRUCKS, 0, report("truck-1", 0))
    state.take(TRUCKS, 1, report("truck-2", 0))
    known = state.change
    state.forget({0})
    frame = state.since(known)
    assert frame["anew"]
    assert trucks_in(frame) == ["truck-2"]
    assert frame["read"] == 1


def test_the_statistics_of_all_trucks_make_those_of_the_fleet() -> None:
    state = FleetState()
    state.take(STATISTICS, 0, statistic("truck-1", 0, reports=15, kmh=80))
    state.take(STATISTICS, 0, statistic("truck-2", 0, reports=5, kmh=40))
    state.take(STATISTICS, 0, statistic("truck-2", 0, reports=5, kmh=40))  # at least once
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


def test_news_that_comes_twice_is_shown_once() -> None:
    state = FleetState()
    for _ in range(2):
        state.take(ALERTS, 0, alert("truck-1", 0))
        state.take(NOTIFICATIONS, 0, notification("truck-1", 0))
    assert len(state.since(0)["news"]) == 1
    assert len(state.since(0)["alerts"]) == 1


def test_what_is_kept_has_a_bound() -> None:
    state = FleetState()
    for number in range(3 * NEWS_KEPT):
        state.take(ALERTS, 0, alert("truck-1", number))
        state.take(NOTIFICATIONS, 0, notification("truck-1", number))
        state.take(STATISTICS, 0, statistic("truck-1", 5 * number))
    assert len(state.since(0)["alerts"]) == NEWS_KEPT
    assert len(state.since(0)["news"]) == NEWS_KEPT
    windows = state.since(0)["windows"]
    assert len(windows) == WINDOWS_KEPT
    assert windows[-1]["start"] == in_text(MORNING + timedelta(minutes=5 * (3 * NEWS_KEPT - 1)))
