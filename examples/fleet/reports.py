"""What a truck reports every 20 seconds, as a value and as the bytes of a record."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from .geography import Place
from .validation import fields_of, moment, number, text

TRUCKS = "trucks"
"""The topic of the reports: 10 partitions, keyed by truck, so that each truck's stay in order."""

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
    def place(self) -> Place:
        return Place(self.lat, self.lon)

    def encode(self) -> bytes:
        return json.dumps(asdict(self) | {"reported_at": in_text(self.reported_at)}).encode()


class BrokenReport(ValueError):
    """A record on the topic that no truck in order would send."""


def decode(value: bytes | None) -> Report:
    """Believes nothing: a topic outlives the programs that write to it."""
    try:
        found = fields_of(value)
        report = Report(
            truck_id=text(found["truck_id"]),
            reported_at=moment(found["reported_at"]),
            lat=number(found["lat"]),
            lon=number(found["lon"]),
            kmh=number(found["kmh"]),
            heading=int(number(found["heading"])),
        )
    except (ValueError, TypeError, KeyError) as reason:
        raise BrokenReport(f"{type(reason).__name__}: {reason}") from reason
    if not (-90 <= report.lat <= 90 and -180 <= report.lon <= 180):
        raise BrokenReport(f"{report.lat}, {report.lon} is no place on earth")
    return report


def in_text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def in_milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
