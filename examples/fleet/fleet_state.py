"""What the dashboard knows of the fleet, folded from the records of four topics."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from . import alerts, notification_rules
from .reports import TRUCKS, BrokenReport, Report, decode, in_milliseconds
from .topics import ALERTS, NOTIFICATIONS, STATISTICS
from .validation import fields_of, number, text

if TYPE_CHECKING:
    from .alerts import Alert
    from .notification_rules import Notification

SILENT_AFTER = timedelta(seconds=60)
WINDOWS_KEPT = 24
"""Two hours of five minutes each."""
NEWS_KEPT = 200
LONG_AGO = datetime.fromtimestamp(0, UTC)


class Seen(NamedTuple):
    """The last report of a truck, and which change of the state it was."""

    report: Report
    partition: int
    change: int


@dataclass(slots=True)
class News:
    """An alert of the pipeline, to be drawn, or a notification, to be read."""

    change: int
    content: dict[str, Any]


class FleetState:
    """The state counts its changes, so that each browser is told only what is new to it."""

    def __init__(self) -> None:
        self.change = 0
        self.trucks: dict[str, Seen] = {}
        self.windows: dict[str, dict[str, dict[str, Any]]] = {}
        """By the start of the window, then by truck: a statistic written twice counts once."""
        self.alerts: dict[str, News] = {}
        self.notifications: dict[str, News] = {}
        self.read: Counter[int] = Counter()
        self.broken: Counter[int] = Counter()
        self._windows_changed = 0
        self._began_anew = 0

    def take(self, topic: str, partition: int, value: bytes | None) -> None:
        """Believes nobody: what cannot be read is counted or passed over, and never stops us."""
        self.change += 1
        try:
            if topic == TRUCKS:
                self._take_report(partition, value)
            elif topic == STATISTICS:
                self._take_statistic(fields_of(value))
            elif topic == ALERTS:
                self._take_alert(alerts.decode(value))
            elif topic == NOTIFICATIONS:
                self._take_notification(notification_rules.decode(value))
        except (ValueError, KeyError, TypeError):
            return

    def forget(self, partitions: set[int]) -> None:
        """Another dashboard of the group has these trucks now, or we shall read them again."""
        self.change += 1
        self._began_anew = self.change
        self.trucks = {
            name: seen for name, seen in self.trucks.items() if seen.partition not in partitions
        }
        for partition in partitions:
            del self.read[partition], self.broken[partition]

    @property
    def now(self) -> datetime:
        """The fleet's time: that of the newest report, however fast it passes."""
        return max((it.report.reported_at for it in self.trucks.values()), default=LONG_AGO)

    def silent(self) -> list[str]:
        """Who has missed three reports or more."""
        last = self.now - SILENT_AFTER
        return sorted(name for name, it in self.trucks.items() if it.report.reported_at < last)

    def since(self, change: int) -> dict[str, Any]:
        """All that a browser must hear that knows the state as of a change; 0 knows nothing."""
        anew = change < self._began_anew or not change
        if anew:
            change = 0
        told: dict[str, Any] = {
            "now": in_milliseconds(self.now),
            "anew": anew,
            "trucks": [drawn(it.report) for it in self.trucks.values() if it.change > change],
            "silent": self.silent(),
            "read": self.read.total(),
            "broken": self.broken.total(),
            "alerts": [it.content for it in self.alerts.values() if it.change > change],
            "news": [it.content for it in self.notifications.values() if it.change > change],
        }
        if self._windows_changed > change:
            told["windows"] = [summary(start, it) for start, it in sorted(self.windows.items())]
        return told

    def _take_report(self, partition: int, value: bytes | None) -> None:
        self.read[partition] += 1
        try:
            report = decode(value)
        except BrokenReport:
            self.broken[partition] += 1
            return
        before = self.trucks.get(report.truck_id)
        if before is None or before.report.reported_at <= report.reported_at:
            self.trucks[report.truck_id] = Seen(report, partition, self.change)

    def _take_statistic(self, statistic: dict[str, Any]) -> None:
        counted = {name: number(statistic[name]) for name in ("reports", "average_kmh", "top_kmh")}
        window = self.windows.setdefault(text(statistic["window_start"]), {})
        window[text(statistic["truck_id"])] = counted
        while len(self.windows) > WINDOWS_KEPT:
            del self.windows[min(self.windows)]
        self._windows_changed = self.change

    def _take_alert(self, alert: Alert) -> None:
        content = {
            "truck_id": alert.truck_id,
            "subject": alert.subject,
            "lat": alert.place.lat,
            "lon": alert.place.lon,
        }
        self._keep(self.alerts, f"{alert.truck_id} {alert.subject} {alert.at}", content)

    def _take_notification(self, told: Notification) -> None:
        content = {
            "subject": told.matter.subject,
            "is_over": told.is_over,
            "at": in_milliseconds(told.at),
            "text": told.text,
        }
        self._keep(self.notifications, f"{told.matter} {told.at} {told.is_over}", content)

    def _keep(self, kept: dict[str, News], name: str, content: dict[str, Any]) -> None:
        """What comes twice is shown once."""
        kept.setdefault(name, News(self.change, content))
        while len(kept) > NEWS_KEPT:
            del kept[next(iter(kept))]


def drawn(report: Report) -> list[Any]:
    """Short, since there are many of these."""
    at_ms = in_milliseconds(report.reported_at)
    return [report.truck_id, report.lat, report.lon, report.kmh, report.heading, at_ms]


def summary(start: str, of_trucks: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The statistics of all trucks in a window as those of the fleet."""
    reports = sum(it["reports"] for it in of_trucks.values())
    total = sum(it["reports"] * it["average_kmh"] for it in of_trucks.values())
    return {
        "start": start,
        "trucks": len(of_trucks),
        "reports": reports,
        "average_kmh": round(total / max(reports, 1), 1),
        "top_kmh": max(it["top_kmh"] for it in of_trucks.values()),
    }
