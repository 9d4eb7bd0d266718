"""Derives notifications from alerts and reports: one when an incident begins, one when it ends."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from .alerts import SILENCE, Alert
from .geography import ZONES, Point, nearest_city
from .reports import Report, in_text
from .validation import fields_of, text, time_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

ZONE_OF = {zone.name: zone for zone in ZONES}


class Incident(NamedTuple):
    """A silence of a truck, or its visit to a zone."""

    truck_id: str
    subject: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    incident: Incident
    is_over: bool
    at: datetime
    text: str

    def encode(self) -> bytes:
        return json.dumps(
            {
                "truck_id": self.incident.truck_id,
                "subject": self.incident.subject,
                "is_over": self.is_over,
                "at": in_text(self.at),
                "text": self.text,
            }
        ).encode()


def decode(value: bytes | None) -> Notification:
    """Decodes a notification; raises ValueError, KeyError or TypeError for an invalid one."""
    found = fields_of(value)
    return Notification(
        incident=Incident(text(found["truck_id"]), text(found["subject"])),
        is_over=bool(found["is_over"]),
        at=time_of(found["at"]),
        text=text(found["text"]),
    )


class NotificationHistory:
    """The last notification of each incident, from which new notifications are derived.

    It is computed only from notifications, so any reader of their topic can rebuild it. Alerts and
    reports are in two topics without a common order, and alerts can be duplicates: events that are
    not later than the last notification of their incident are ignored.
    """

    def __init__(self, notifications: Iterable[Notification] = ()) -> None:
        self._last = {it.incident: it for it in notifications}

    def for_alert(self, alert: Alert) -> list[Notification]:
        incident = Incident(alert.truck_id, alert.subject)
        last = self._last.get(incident)
        if last is not None and (not last.is_over or alert.at <= last.at):
            return []
        return [self._add(incident, opening(alert), at=alert.at, is_over=False)]

    def for_report(self, report: Report) -> list[Notification]:
        """Ends the silence of the truck and its visits to zones that it has left."""
        return [
            self._add(
                incident, ending(incident.subject, report), at=report.reported_at, is_over=True
            )
            for incident in self._incidents_of(report.truck_id)
            if not (last := self._last[incident]).is_over
            and report.reported_at > last.at
            and not is_still_in(incident.subject, report.position)
        ]

    def _incidents_of(self, truck_id: str) -> list[Incident]:
        subjects = (SILENCE, *ZONE_OF)
        return [it for name in subjects if (it := Incident(truck_id, name)) in self._last]

    def _add(self, incident: Incident, text: str, *, at: datetime, is_over: bool) -> Notification:
        notification = Notification(incident=incident, is_over=is_over, at=at, text=text)
        self._last[incident] = notification
        return notification


def is_still_in(subject: str, position: Point) -> bool:
    return subject != SILENCE and ZONE_OF[subject].contains(position)


def opening(alert: Alert) -> str:
    if alert.subject == SILENCE:
        where = nearest_city(alert.position)
        return f"{alert.truck_id} has been silent since {alert.at:%H:%M}, last seen near {where}"
    return f"{alert.truck_id} is in the closed zone {alert.subject} at {alert.at:%H:%M}"


def ending(subject: str, report: Report) -> str:
    """Returns the text, without a duration, because the alert may be late."""
    here = f"{report.reported_at:%H:%M} near {nearest_city(report.position)}"
    if subject == SILENCE:
        return f"{report.truck_id} reports again at {here}"
    return f"{report.truck_id} is out of the closed zone {subject} at {here}"
