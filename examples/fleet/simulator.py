"""Simulated trucks: each reports every 20 seconds; some records are broken, some trucks silent."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from .geography import CITIES, Point, Road, roads_from
from .reports import REPORT_SECONDS, TRUCKS, Report, in_milliseconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafka import KafkaProducer

LEAD_MAX = timedelta(days=6)
"""Older records would soon exceed the retention time of a week."""
FAST_MOTION = timedelta(hours=1)
"""Time in which a fast simulation catches up with the clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Parameters of a simulation; equal parameters produce equal routes."""

    trucks: int = 100
    seed: int = 4
    broken_share: float = 0.008
    silent_trucks: int = 5
    silence_minutes: tuple[float, float] = (3, 12)
    reporting_minutes: tuple[float, float] = (5, 40)
    """Range of the time between two silences of a truck."""


class Transmission(NamedTuple):
    """A record of a truck, usually a report."""

    at: datetime
    truck_id: str
    value: bytes


def transmissions(plan: Plan, departure: datetime) -> Iterator[Transmission]:
    """Yields all records of the fleet from its departure, ordered by time, without end."""
    silent = min(plan.silent_trucks, plan.trucks)
    silent_numbers = set(Random(f"{plan.seed} silent").sample(range(plan.trucks), silent))
    trucks = [
        Truck(plan, number, falls_silent=number in silent_numbers) for number in range(plan.trucks)
    ]
    for turn in count():
        for number, truck in enumerate(trucks):
            elapsed_s = (turn + number / len(trucks)) * REPORT_SECONDS
            value = truck.value_at(elapsed_s, departure)
            if value is not None:
                yield Transmission(departure + timedelta(seconds=elapsed_s), truck.truck_id, value)


class Truck:
    """A truck; its random generator is independent of other trucks."""

    def __init__(self, plan: Plan, number: int, *, falls_silent: bool) -> None:
        self.truck_id = f"truck-{number:03}"
        self._plan = plan
        self._rng = Random(f"{plan.seed} {number}")
        self._legs = journey(Random(f"{plan.seed} {number} journey"))
        self._leg = next(self._legs)
        self._leg_began_s = -self._rng.uniform(0, self._leg.duration_s)
        self._silences = silences(plan, self._rng) if falls_silent else iter(())
        self._silence = next(self._silences, NEVER)

    def value_at(self, elapsed_s: float, departure: datetime) -> bytes | None:
        """Returns the record sent at this time, or None; the time must not decrease."""
        while elapsed_s >= self._silence.ends_s:
            self._silence = next(self._silences, NEVER)
        report = self.report_at(elapsed_s, departure)
        if elapsed_s >= self._silence.begins_s:
            return None
        if self._rng.random() < self._plan.broken_share:
            return broken(report, self._rng)
        return report.encode()

    def report_at(self, elapsed_s: float, departure: datetime) -> Report:
        while elapsed_s >= self._leg_began_s + self._leg.duration_s:
            self._leg_began_s += self._leg.duration_s
            self._leg = next(self._legs)
        fraction = (elapsed_s - self._leg_began_s) / self._leg.duration_s
        position, heading = self._leg.at(fraction)
        wobble = self._rng.uniform(-3, 3) if self._leg.kmh else 0
        return Report(
            truck_id=self.truck_id,
            reported_at=departure + timedelta(seconds=elapsed_s),
            lat=round(position.lat, 5),
            lon=round(position.lon, 5),
            kmh=round(self._leg.kmh + wobble, 1),
            heading=heading,
        )


class Leg(NamedTuple):
    """A drive between two cities, or a rest in a city (0 km/h)."""

    road: Road
    kmh: float
    duration_s: float

    def at(self, fraction: float) -> tuple[Point, int]:
        if not self.kmh:
            return CITIES[self.road.start], 0
        return self.road.at(fraction), self.road.heading_at(fraction)


def journey(rng: Random) -> Iterator[Leg]:
    """Yields drives and rests; a truck turns back only at dead ends."""
    city, came_from = rng.choice(list(CITIES)), ""
    while True:
        roads = roads_from(city)
        road = rng.choice([it for it in roads if it.end != came_from] or roads)
        if rng.random() < 0.3:
            yield Leg(road, 0, rng.uniform(5, 45) * 60)
        kmh = rng.uniform(62, 86)
        yield Leg(road, kmh, road.length_km / kmh * 3600)
        city, came_from = road.end, city


class Silence(NamedTuple):
    begins_s: float
    ends_s: float


NEVER = Silence(float("inf"), float("inf"))


def silences(plan: Plan, rng: Random) -> Iterator[Silence]:
    now_s = 0.0
    while True:
        begins_s = now_s + rng.uniform(*plan.reporting_minutes) * 60
        now_s = begins_s + rng.uniform(*plan.silence_minutes) * 60
        yield Silence(begins_s, now_s)


def broken(report: Report, rng: Random) -> bytes:
    """Returns a report broken in a random way."""
    whole = report.encode()
    return rng.choice(
        [
            whole[: len(whole) // 2],
            whole.replace(b'"lat"', b'"latitude"'),
            whole.replace(report.reported_at.isoformat()[:4].encode(), b"year", 1),
            whole.replace(f'"lat": {report.lat}'.encode(), b'"lat": 4811.5'),
            b"\x00\xffreboot",
            b"",
        ]
    )


# --- sending


def departure_of(speed: float, now: datetime) -> datetime:
    """Returns the simulated departure, which is in the past if time runs faster than the clock.

    A broker rejects records of the future and deletes records older than the retention time.
    """
    return now - min(LEAD_MAX, FAST_MOTION * (speed - 1))


def drive(
    producer: KafkaProducer,
    plan: Plan,
    *,
    speed: float,
    is_stopped: Callable[[], bool] = lambda: False,
) -> None:
    """Sends the records, `speed` times as fast as the clock until the present is reached."""
    begun = datetime.now(UTC)
    departure = departure_of(speed, begun)
    for sent in transmissions(plan, departure):
        due = max(begun + (sent.at - departure) / speed, sent.at)
        while (wait_s := (due - datetime.now(UTC)).total_seconds()) > 0 and not is_stopped():
            time.sleep(min(wait_s, 0.2))
        if is_stopped():
            return
        producer.send(
            TRUCKS,
            key=sent.truck_id.encode(),
            value=sent.value,
            timestamp_ms=in_milliseconds(sent.at),
        )
