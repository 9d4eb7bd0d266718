"""Topics of the fleet for an embedded broker, and rows for them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from examples.fleet import topics
from examples.fleet.alerts import SILENCE
from examples.fleet.geography import CITIES
from examples.fleet.reports import Report, in_text
from pykbroker import Row, Topic

TOPICS = {
    name: Topic(partitions, config=topics.CONFIG.get(name, {}))
    for name, partitions in topics.PARTITIONS.items()
}
BEGAN = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=2)


def at(minute: float) -> datetime:
    return BEGAN + timedelta(minutes=minute)


def alert(truck: str, minute: float, *, subject: str = SILENCE, city: str = "Ulm") -> Row:
    position = CITIES[city]
    found = {"truck_id": truck, "subject": subject, "at": in_text(at(minute))}
    return Row(found | {"lat": position.lat, "lon": position.lon}, key=truck)


def report(truck: str, minute: float, *, city: str = "Ulm", kmh: float = 80) -> Row:
    position = CITIES[city]
    found = Report(
        truck_id=truck,
        reported_at=at(minute),
        lat=position.lat,
        lon=position.lon,
        kmh=kmh,
        heading=90,
    )
    return Row(found.encode(), key=truck)


def statistic(truck: str, minute: float, *, kmh: float = 70) -> Row:
    found = {
        "truck_id": truck,
        "window_start": in_text(at(minute)),
        "window_end": in_text(at(minute + 5)),
        "reports": 15,
        "average_kmh": kmh,
        "top_kmh": kmh + 5,
    }
    return Row(found, key=truck)
