"""Trucks on the road: each reports every 20 seconds, some break a record, a few fall silent."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from .geography import CITIES, Place, Road, roads_from
from .reports import REPORT_SECONDS, TRUCKS, Report, in_milliseconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafka import KafkaProducer

LEAD_MAX = timedelta(days=6)
"""Older records would be near the end of the week that a topic keeps them."""
FAST_MOTION = timedelta(hours=1)
"""How long a simulation runs faster than the clock before it has caught up with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A simulation: the same plan makes the same trucks drive the same ways."""

    trucks: int = 100
    seed: int = 4
    broken_share: float = 0.008
    silent_trucks: int = 5
    silence_minutes: tuple[float, float] = (3, 12)
    loud_minutes: tuple[float, float] = (5, 40)
    """How long a truck that falls silent reports in between."""


class Transmission(NamedTuple):
    """What leaves a truck: mostly a report."""

    at: datetime
    truck_id: str
    value: bytes


def transmissions(plan: Plan, departure: datetime) -> Iterator[Transmission]:
    """All that the fleet sends from its departure on, in the order of time, without end."""
    silent = min(plan.silent_trucks, plan.trucks)
    forgetful = set(Random(f"{plan.seed} silent").sample(range(plan.trucks), silent))
    trucks = [
        Truck(plan, number, falls_silent=number in forgetful) for number in range(plan.trucks)
    ]
    for turn in count():
        for number, truck in enumerate(trucks):
            elapsed_s = (turn + number / len(trucks)) * REPORT_SECONDS
            value = truck.value_at(elapsed_s, departure)
            if value is not None:
                yield Transmission(departure + timedelta(seconds=elapsed_s), truck.truck_id, value)


class Truck:
    """One truck; all its chances come from its own generator, whatever the others do."""

    def __init__(self, plan: Plan, number: int, *, falls_silent: bool) -> None:
        self.truck_id = f"truck-{number:03}"
        self._plan = plan
        self._chance = Random(f"{plan.seed} {number}")
        self._legs = journey(Random(f"{plan.seed} {number} journey"))
        self._leg = next(self._legs)
        self._leg_began_s = -self._chance.uniform(0, self._leg.duration_s)
        self._silences = silences(plan, self._chance) if falls_silent else iter(())
        self._silence = next(self._silences, NEVER)

    def value_at(self, elapsed_s: float, departure: datetime) -> bytes | None:
        """The record sent at that moment, or nothing; moments only go forward."""
        while elapsed_s >= self._silence.ends_s:
            self._silence = next(self._silences, NEVER)
        report = self.report_at(elapsed_s, departure)
        if elapsed_s >= self._silence.begins_s:
            return None
        if self._chance.random() < self._plan.broken_share:
            return broken(report, self._chance)
        return report.encode()

    def report_at(self, elapsed_s: float, departure: datetime) -> Report:
        while elapsed_s >= self._leg_began_s + self._leg.duration_s:
            self._leg_began_s += self._leg.duration_s
            self._leg = next(self._legs)
        fraction = (elapsed_s - self._leg_began_s) / self._leg.duration_s
        place, heading = self._leg.at(fraction)
        wobble = self._chance.uniform(-3, 3) if self._leg.kmh else 0
        return Report(
            truck_id=self.truck_id,
            reported_at=departure + timedelta(seconds=elapsed_s),
            lat=round(place.lat, 5),
            lon=round(place.lon, 5),
            kmh=round(self._leg.kmh + wobble, 1),
            heading=heading,
        )


class Leg(NamedTuple):
    """A drive from city to city, or a rest in one (0 km/h)."""

    road: Road
    kmh: float
    duration_s: float

    def at(self, fraction: float) -> tuple[Place, int]:
        if not self.kmh:
            return CITIES[self.road.start], 0
        return self.road.at(fraction), self.road.heading_at(fraction)


def journey(chance: Random) -> Iterator[Leg]:
    """From city to city, with a rest now and then; nobody turns back while there is a way on."""
    city, came_from = chance.choice(list(CITIES)), ""
    while True:
        roads = roads_from(city)
        road = chance.choice([it for it in roads if it.end != came_from] or roads)
        if chance.random() < 0.3:
            yield Leg(road, 0, chance.uniform(5, 45) * 60)
        kmh = chance.uniform(62, 86)
        yield Leg(road, kmh, road.length_km / kmh * 3600)
        city, came_from = road.end, city


class Silence(NamedTuple):
    begins_s: float
    ends_s: float


NEVER = Silence(float("inf"), float("inf"))


def silences(plan: Plan, chance: Random) -> Iterator[Silence]:
    now_s = 0.0
    while True:
        begins_s = now_s + chance.uniform(*plan.loud_minutes) * 60
        now_s = begins_s + chance.uniform(*plan.silence_minutes) * 60
        yield Silence(begins_s, now_s)


def broken(report: Report, chance: Random) -> bytes:
    """The ways in which records break in the field."""
    whole = report.encode()
    return chance.choice(
        [
            whole[: len(whole) // 2],
            whole.replace(b'"lat"', b'"latitude"'),
            whole.replace(report.reported_at.isoformat()[:4].encode(), b"year", 1),
            whole.replace(f'"lat": {report.lat}'.encode(), b'"lat": 4811.5'),
            b"\x00\xffreboot",
            b"",
        ]
    )


# --- on the wire


def departure_of(speed: float, now: datetime) -> datetime:
    """In the past, as far as the fast motion needs it.

    Records of the future are refused by a broker, and records of long ago are dropped by it.
    """
    return now - min(LEAD_MAX, FAST_MOTION * (speed - 1))


def drive(
    producer: KafkaProducer,
    plan: Plan,
    *,
    speed: float,
    is_over: Callable[[], bool] = lambda: False,
) -> None:
    """Sends what the fleet sends, `speed` times as fast as the clock until it is the present."""
    begun = datetime.now(UTC)
    departure = departure_of(speed, begun)
    for sent in transmissions(plan, departure):
        due = max(begun + (sent.at - departure) / speed, sent.at)
        while (wait_s := (due - datetime.now(UTC)).total_seconds()) > 0 and not is_over():
            time.sleep(min(wait_s, 0.2))
        if is_over():
            return
        producer.send(
            TRUCKS,
            key=sent.truck_id.encode(),
            value=sent.value,
            timestamp_ms=in_milliseconds(sent.at),
        )
