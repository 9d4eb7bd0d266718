"""State of the dashboard, computed from the records of four topics."""

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
"""Windows of five minutes in two hours."""
NEWS_KEPT = 200
EPOCH = datetime.fromtimestamp(0, UTC)


class LastReport(NamedTuple):
    """The last report of a truck, with the number of its change."""

    report: Report
    partition: int
    change: int


@dataclass(slots=True)
class News:
    """An alert to draw or a notification to list, with the number of its change."""

    change: int
    content: dict[str, Any]


class FleetState:
    """State of the fleet. Counts its changes, so that browsers receive only new ones."""

    def __init__(self) -> None:
        self.change = 0
        self.trucks: dict[str, LastReport] = {}
        self.windows: dict[str, dict[str, dict[str, Any]]] = {}
        """By start of the window, then by truck; a duplicate statistic counts once."""
        self.alerts: dict[str, News] = {}
        self.notifications: dict[str, News] = {}
        self.read: Counter[int] = Counter()
        self.broken: Counter[int] = Counter()
        self._windows_changed = 0
        self._reset_change = 0

    def apply(self, topic: str, partition: int, value: bytes | None) -> None:
        """Applies a record; invalid ones are counted or ignored."""
        self.change += 1
        try:
            if topic == TRUCKS:
                self._apply_report(partition, value)
            elif topic == STATISTICS:
                self._apply_statistic(fields_of(value))
            elif topic == ALERTS:
                self._apply_alert(alerts.decode(value))
            elif topic == NOTIFICATIONS:
                self._apply_notification(notification_rules.decode(value))
        except (ValueError, KeyError, TypeError):
            return

    def remove_partitions(self, partitions: set[int]) -> None:
        """Removes the trucks of revoked partitions; they are shown elsewhere or read again."""
        self.change += 1
        self._reset_change = self.change
        self.trucks = {
            name: seen for name, seen in self.trucks.items() if seen.partition not in partitions
        }
        for partition in partitions:
            del self.read[partition], self.broken[partition]

    @property
    def now(self) -> datetime:
        """Simulated time: that of the newest report."""
        return max((it.report.reported_at for it in self.trucks.values()), default=EPOCH)

    def silent(self) -> list[str]:
        """Returns the trucks without a report for 60 seconds."""
        last = self.now - SILENT_AFTER
        return sorted(name for name, it in self.trucks.items() if it.report.reported_at < last)

    def since(self, change: int) -> dict[str, Any]:
        """Returns the changes after a change number; 0 returns the whole state."""
        is_reset = change < self._reset_change or not change
        if is_reset:
            change = 0
        frame: dict[str, Any] = {
            "now": in_milliseconds(self.now),
            "reset": is_reset,
            "trucks": [truck_row(it.report) for it in self.trucks.values() if it.change > change],
            "silent": self.silent(),
            "read": self.read.total(),
            "broken": self.broken.total(),
            "alerts": [it.content for it in self.alerts.values() if it.change > change],
            "news": [it.content for it in self.notifications.values() if it.change > change],
        }
        if self._windows_changed > change:
            frame["windows"] = [summary(start, it) for start, it in sorted(self.windows.items())]
        return frame

    def _apply_report(self, partition: int, value: bytes | None) -> None:
        self.read[partition] += 1
        try:
            report = decode(value)
        except BrokenReport:
            self.broken[partition] += 1
            return
        before = self.trucks.get(report.truck_id)
        if before is None or before.report.reported_at <= report.reported_at:
            self.trucks[report.truck_id] = LastReport(report, partition, self.change)

    def _apply_statistic(self, statistic: dict[str, Any]) -> None:
        counted = {name: number(statistic[name]) for name in ("reports", "average_kmh", "top_kmh")}
        window = self.windows.setdefault(text(statistic["window_start"]), {})
        window[text(statistic["truck_id"])] = counted
        while len(self.windows) > WINDOWS_KEPT:
            del self.windows[min(self.windows)]
        self._windows_changed = self.change

    def _apply_alert(self, alert: Alert) -> None:
        content = {
            "truck_id": alert.truck_id,
            "subject": alert.subject,
            "lat": alert.position.lat,
            "lon": alert.position.lon,
        }
        self._add(self.alerts, f"{alert.truck_id} {alert.subject} {alert.at}", content)

    def _apply_notification(self, notification: Notification) -> None:
        content = {
            "subject": notification.incident.subject,
            "is_over": notification.is_over,
            "at": in_milliseconds(notification.at),
            "text": notification.text,
        }
        self._add(
            self.notifications,
            f"{notification.incident} {notification.at} {notification.is_over}",
            content,
        )

    def _add(self, kept: dict[str, News], name: str, content: dict[str, Any]) -> None:
        """Adds an item unless it is a duplicate."""
        kept.setdefault(name, News(self.change, content))
        while len(kept) > NEWS_KEPT:
            del kept[next(iter(kept))]


def truck_row(report: Report) -> list[Any]:
    """Returns a truck as a list, which is shorter than an object."""
    at_ms = in_milliseconds(report.reported_at)
    return [report.truck_id, report.lat, report.lon, report.kmh, report.heading, at_ms]


def summary(start: str, of_trucks: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Aggregates the statistics of all trucks in a window."""
    reports = sum(it["reports"] for it in of_trucks.values())
    total = sum(it["reports"] * it["average_kmh"] for it in of_trucks.values())
    return {
        "start": start,
        "trucks": len(of_trucks),
        "reports": reports,
        "average_kmh": round(total / max(reports, 1), 1),
        "top_kmh": max(it["top_kmh"] for it in of_trucks.values()),
    }
