"""A matter is told when it opens and when it ends, whatever comes twice or late."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from examples.fleet.alerts import SILENCE, Alert
from examples.fleet.geography import CITIES, Place
from examples.fleet.notification_rules import Notification, Told, decode
from examples.fleet.reports import Report

MORNING = datetime(2026, 5, 4, 6, 0, tzinfo=UTC)
ULM, MUNICH = CITIES["Ulm"], CITIES["Munich"]

Event = tuple[str, int, Place]


def at(minute: int) -> datetime:
    return MORNING + timedelta(minutes=minute)


def told_of(told: Told, events: list[Event]) -> list[Notification]:
    """Events are alerts by subject, or reports, at a minute and a place."""
    found = []
    for what, minute, place in events:
        if what == "report":
            report = Report(
                truck_id="truck-1",
                reported_at=at(minute),
                lat=place.lat,
                lon=place.lon,
                kmh=80,
                heading=0,
            )
            found += told.news_of_report(report)
        else:
            alert = Alert(truck_id="truck-1", subject=what, at=at(minute), place=place)
            found += told.news_of_alert(alert)
    return found


SILENT = "truck-1 has been silent since 06:04, last seen near Ulm"
BACK = "truck-1 reports again at 06:12 near Ulm"
INSIDE = "truck-1 is in the closed zone Munich at 06:01"
OUTSIDE = "truck-1 is out of the closed zone Munich at 06:07 near Ulm"

STORIES: dict[str, tuple[list[Event], list[str]]] = {
    "silence begins and ends": ([(SILENCE, 4, ULM), ("report", 12, ULM)], [SILENT, BACK]),
    "an alert comes twice": ([(SILENCE, 4, ULM), (SILENCE, 4, ULM)], [SILENT]),
    "an alert comes twice, once late": (
        [(SILENCE, 4, ULM), ("report", 12, ULM), (SILENCE, 4, ULM)],
        [SILENT, BACK],
    ),
    "reports are read later than the alert": (
        [(SILENCE, 4, ULM), ("report", 3, ULM), ("report", 4, ULM), ("report", 12, ULM)],
        [SILENT, BACK],
    ),
    "reports of one who was never silent": ([("report", 1, ULM), ("report", 2, MUNICH)], []),
    "a second silence": (
        [(SILENCE, 4, ULM), ("report", 12, ULM), (SILENCE, 30, ULM)],
        [SILENT, BACK, "truck-1 has been silent since 06:30, last seen near Ulm"],
    ),
    "a visit has many alerts": (
        [
            ("Munich", 1, MUNICH),
            ("Munich", 2, MUNICH),
            ("report", 3, MUNICH),
            ("Munich", 3, MUNICH),
            ("report", 7, ULM),
        ],
        [INSIDE, OUTSIDE],
    ),
    "alerts of a visit that come after it was left": (
        [("Munich", 1, MUNICH), ("report", 7, ULM), ("Munich", 3, MUNICH)],
        [INSIDE, OUTSIDE],
    ),
    "matters are apart": (
        [("Munich", 1, MUNICH), (SILENCE, 4, MUNICH), ("report", 12, MUNICH)],
        [
            INSIDE,
            "truck-1 has been silent since 06:04, last seen near Munich",
            "truck-1 reports again at 06:12 near Munich",
        ],
    ),
}


@pytest.mark.parametrize(("events", "texts"), STORIES.values(), ids=STORIES)
def test_a_matter_is_told_when_it_opens_and_when_it_ends(
    events: list[Event], texts: list[str]
) -> None:
    assert [it.text for it in told_of(Told(), events)] == texts


@pytest.mark.parametrize(("events", "texts"), STORIES.values(), ids=STORIES)
def test_whoever_has_read_what_was_told_goes_on_as_its_writer_would(
    events: list[Event], texts: list[str]
) -> None:
    """A crash between any two events changes nothing."""
    told: list[Notification] = []
    for event in events:
        memory = Told(decode(it.encode()) for it in told)
        told += told_of(memory, [event])
    assert [it.text for it in told] == texts
