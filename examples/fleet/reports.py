"""The report that a truck sends every 20 seconds, as value and as record."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from .geography import Point
from .validation import fields_of, number, text, time_of

TRUCKS = "trucks"
"""Topic of the reports; keyed by truck, so that reports of a truck are in order."""

REPORT_SECONDS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    truck_id: str
    reported_at: datetime
    lat: float
    lon: float
    kmh: float
    heading: int

    @property
    def position(self) -> Point:
        return Point(self.lat, self.lon)

    def encode(self) -> bytes:
        return json.dumps(asdict(self) | {"reported_at": in_text(self.reported_at)}).encode()


class BrokenReport(ValueError):
    """Raised for a record that is not a valid report."""


def decode(value: bytes | None) -> Report:
    """Validates all fields, because any program can write to a topic."""
    try:
        found = fields_of(value)
        report = Report(
            truck_id=text(found["truck_id"]),
            reported_at=time_of(found["reported_at"]),
            lat=number(found["lat"]),
            lon=number(found["lon"]),
            kmh=number(found["kmh"]),
            heading=int(number(found["heading"])),
        )
    except (ValueError, TypeError, KeyError) as reason:
        raise BrokenReport(f"{type(reason).__name__}: {reason}") from reason
    if not (-90 <= report.lat <= 90 and -180 <= report.lon <= 180):
        raise BrokenReport(f"{report.lat}, {report.lon} is not a position on earth")
    return report


def in_text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def in_milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
