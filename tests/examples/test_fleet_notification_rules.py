"""A notification is derived when an incident begins and when it ends."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from examples.fleet.alerts import SILENCE, Alert
from examples.fleet.geography import CITIES, Point
from examples.fleet.notification_rules import Notification, NotificationHistory, decode
from examples.fleet.reports import Report

MORNING = datetime(2026, 5, 4, 6, 0, tzinfo=UTC)
ULM, MUNICH = CITIES["Ulm"], CITIES["Munich"]

Event = tuple[str, int, Point]


def at(minute: int) -> datetime:
    return MORNING + timedelta(minutes=minute)


def notifications_for(history: NotificationHistory, events: list[Event]) -> list[Notification]:
    """Events are alerts by subject, or reports, with minute and position."""
    found = []
    for kind, minute, position in events:
        if kind == "report":
            report = Report(
                truck_id="truck-1",
                reported_at=at(minute),
                lat=position.lat,
                lon=position.lon,
                kmh=80,
                heading=0,
            )
            found += history.for_report(report)
        else:
            alert = Alert(truck_id="truck-1", subject=kind, at=at(minute), position=position)
            found += history.for_alert(alert)
    return found


SILENT = "truck-1 has been silent since 06:04, last seen near Ulm"
BACK = "truck-1 reports again at 06:12 near Ulm"
INSIDE = "truck-1 is in the closed zone Munich at 06:01"
OUTSIDE = "truck-1 is out of the closed zone Munich at 06:07 near Ulm"

SCENARIOS: dict[str, tuple[list[Event], list[str]]] = {
    "silence begins and ends": ([(SILENCE, 4, ULM), ("report", 12, ULM)], [SILENT, BACK]),
    "a duplicate alert": ([(SILENCE, 4, ULM), (SILENCE, 4, ULM)], [SILENT]),
    "a late duplicate alert": (
        [(SILENCE, 4, ULM), ("report", 12, ULM), (SILENCE, 4, ULM)],
        [SILENT, BACK],
    ),
    "reports are read later than the alert": (
        [(SILENCE, 4, ULM), ("report", 3, ULM), ("report", 4, ULM), ("report", 12, ULM)],
        [SILENT, BACK],
    ),
    "reports of a truck that was never silent": ([("report", 1, ULM), ("report", 2, MUNICH)], []),
    "a second silence": (
        [(SILENCE, 4, ULM), ("report", 12, ULM), (SILENCE, 30, ULM)],
        [SILENT, BACK, "truck-1 has been silent since 06:30, last seen near Ulm"],
    ),
    "a visit with many alerts": (
        [
            ("Munich", 1, MUNICH),
            ("Munich", 2, MUNICH),
            ("report", 3, MUNICH),
            ("Munich", 3, MUNICH),
            ("report", 7, ULM),
        ],
        [INSIDE, OUTSIDE],
    ),
    "alerts of a visit after its end": (
        [("Munich", 1, MUNICH), ("report", 7, ULM), ("Munich", 3, MUNICH)],
        [INSIDE, OUTSIDE],
    ),
    "incidents are independent": (
        [("Munich", 1, MUNICH), (SILENCE, 4, MUNICH), ("report", 12, MUNICH)],
        [
            INSIDE,
            "truck-1 has been silent since 06:04, last seen near Munich",
            "truck-1 reports again at 06:12 near Munich",
        ],
    ),
}


@pytest.mark.parametrize(("events", "texts"), SCENARIOS.values(), ids=SCENARIOS)
def test_notification_is_derived_when_an_incident_begins_and_ends(
    events: list[Event], texts: list[str]
) -> None:
    assert [it.text for it in notifications_for(NotificationHistory(), events)] == texts


@pytest.mark.parametrize(("events", "texts"), SCENARIOS.values(), ids=SCENARIOS)
def test_history_rebuilt_from_notifications_derives_the_same_ones(
    events: list[Event], texts: list[str]
) -> None:
    """Restarts after each event."""
    notifications: list[Notification] = []
    for event in events:
        history = NotificationHistory(decode(it.encode()) for it in notifications)
        notifications += notifications_for(history, [event])
    assert [it.text for it in notifications] == texts
