"""Which notifications follow from alerts and reports: a matter is told when it opens and ends."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from .alerts import SILENCE, Alert
from .geography import ZONES, Place, nearest_city
from .reports import Report, in_text
from .validation import fields_of, moment, text

if TYPE_CHECKING:
    from collections.abc import Iterable

ZONE_OF = {zone.name: zone for zone in ZONES}
LONG_AGO = datetime.fromtimestamp(0, UTC)


class Matter(NamedTuple):
    """A truck's silence, or its visit to a zone."""

    truck_id: str
    subject: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    matter: Matter
    is_over: bool
    at: datetime
    text: str

    def encode(self) -> bytes:
        return json.dumps(
            {
                "truck_id": self.matter.truck_id,
                "subject": self.matter.subject,
                "is_over": self.is_over,
                "at": in_text(self.at),
                "text": self.text,
            }
        ).encode()


def decode(value: bytes | None) -> Notification:
    """Raises ValueError, KeyError or TypeError for what is no notification."""
    found = fields_of(value)
    return Notification(
        matter=Matter(text(found["truck_id"]), text(found["subject"])),
        is_over=bool(found["is_over"]),
        at=moment(found["at"]),
        text=text(found["text"]),
    )


class Told:
    """What has been told so far, and hence what is news.

    It is a fold of the notifications themselves: whoever has read them all knows what their
    writer knew. Alerts and reports come from two topics and in no common order, and an alert
    may come twice: what is not later than the last thing told of a matter is no news.
    """

    def __init__(self, notifications: Iterable[Notification] = ()) -> None:
        self._last = {it.matter: it for it in notifications}

    def news_of_alert(self, alert: Alert) -> list[Notification]:
        matter = Matter(alert.truck_id, alert.subject)
        last = self._last.get(matter)
        if last is not None and (not last.is_over or alert.at <= last.at):
            return []
        return [self._tell(matter, opening(alert), at=alert.at, is_over=False)]

    def news_of_report(self, report: Report) -> list[Notification]:
        """A truck that reports is not silent, and has left the zones it is not in."""
        return [
            self._tell(matter, ending(matter.subject, report), at=report.reported_at, is_over=True)
            for matter in self._matters_of(report.truck_id)
            if not (last := self._last[matter]).is_over
            and report.reported_at > last.at
            and not still_there(matter.subject, report.place)
        ]

    def _matters_of(self, truck_id: str) -> list[Matter]:
        subjects = (SILENCE, *ZONE_OF)
        return [it for name in subjects if (it := Matter(truck_id, name)) in self._last]

    def _tell(self, matter: Matter, text: str, *, at: datetime, is_over: bool) -> Notification:
        notification = Notification(matter=matter, is_over=is_over, at=at, text=text)
        self._last[matter] = notification
        return notification


def still_there(subject: str, place: Place) -> bool:
    return subject != SILENCE and ZONE_OF[subject].contains(place)


def opening(alert: Alert) -> str:
    if alert.subject == SILENCE:
        where = nearest_city(alert.place)
        return f"{alert.truck_id} has been silent since {alert.at:%H:%M}, last seen near {where}"
    return f"{alert.truck_id} is in the closed zone {alert.subject} at {alert.at:%H:%M}"


def ending(subject: str, report: Report) -> str:
    """Says what the report says, not for how long: an alert may have come long after its cause."""
    here = f"{report.reported_at:%H:%M} near {nearest_city(report.place)}"
    if subject == SILENCE:
        return f"{report.truck_id} reports again at {here}"
    return f"{report.truck_id} is out of the closed zone {subject} at {here}"
