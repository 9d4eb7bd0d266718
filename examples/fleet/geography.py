"""The map: border, cities, roads and closed zones."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

EARTH_RADIUS_KM = 6371.0
BEND = 0.07
"""Distance of the middle of a road from the straight line, as fraction of its length."""


@dataclass(frozen=True, slots=True)
class Point:
    """A point on the map, in degrees."""

    lat: float
    lon: float

    def distance_km(self, other: Point) -> float:
        """Returns the distance by the haversine formula, which the pipeline uses in SQL."""
        lat, other_lat = math.radians(self.lat), math.radians(other.lat)
        half_lat = math.sin((other_lat - lat) / 2) ** 2
        half_lon = math.sin(math.radians(other.lon - self.lon) / 2) ** 2
        chord = half_lat + math.cos(lat) * math.cos(other_lat) * half_lon
        return 2 * EARTH_RADIUS_KM * math.asin(math.sqrt(chord))


@dataclass(frozen=True, slots=True, kw_only=True)
class Zone:
    """A circle that trucks must not enter."""

    name: str
    center: Point
    radius_km: float

    def contains(self, position: Point) -> bool:
        return self.center.distance_km(position) <= self.radius_km


@dataclass(frozen=True)
class Road:
    """A road between two cities: a slightly bent quadratic Bézier curve."""

    start: str
    end: str

    @cached_property
    def bend(self) -> Point:
        """The control point of the curve, the same in both directions."""
        start, end = CITIES[min(self.start, self.end)], CITIES[max(self.start, self.end)]
        shrink = math.cos(math.radians((start.lat + end.lat) / 2))
        across_lat = -(end.lon - start.lon) * shrink
        across_lon = (end.lat - start.lat) / shrink
        side = 2 * BEND if (len(self.start) + len(self.end)) % 2 else -2 * BEND
        return Point(
            (start.lat + end.lat) / 2 + side * across_lat,
            (start.lon + end.lon) / 2 + side * across_lon,
        )

    @cached_property
    def length_km(self) -> float:
        points = [self.at(step / 8) for step in range(9)]
        return sum(a.distance_km(b) for a, b in pairwise(points))

    def at(self, fraction: float) -> Point:
        """Returns the point at a fraction of the curve, 0 (start) to 1 (end)."""
        start, bend, end = CITIES[self.start], self.bend, CITIES[self.end]
        a, b, c = (1 - fraction) ** 2, 2 * fraction * (1 - fraction), fraction**2
        return Point(
            a * start.lat + b * bend.lat + c * end.lat,
            a * start.lon + b * bend.lon + c * end.lon,
        )

    def heading_at(self, fraction: float) -> int:
        """Returns the heading in degrees clockwise from north."""
        here, there = self.at(max(fraction - 0.01, 0)), self.at(min(fraction + 0.01, 1))
        east = (there.lon - here.lon) * math.cos(math.radians(here.lat))
        return round(math.degrees(math.atan2(east, there.lat - here.lat))) % 360


def nearest_city(position: Point) -> str:
    return min(CITIES, key=lambda city: CITIES[city].distance_km(position))


def roads_from(city: str) -> list[Road]:
    """Returns all roads from a city, in the same order in every run."""
    out = [Road(a, b) for a, b in ROADS if a == city]
    return out + [Road(b, a) for a, b in ROADS if b == city]


CITIES = {
    "Augsburg": Point(48.37, 10.90),
    "Berlin": Point(52.52, 13.40),
    "Bielefeld": Point(52.02, 8.53),
    "Bremen": Point(53.08, 8.80),
    "Chemnitz": Point(50.83, 12.92),
    "Cologne": Point(50.94, 6.96),
    "Cottbus": Point(51.76, 14.33),
    "Dortmund": Point(51.51, 7.47),
    "Dresden": Point(51.05, 13.74),
    "Emden": Point(53.37, 7.21),
    "Erfurt": Point(50.98, 11.03),
    "Flensburg": Point(54.78, 9.44),
    "Frankfurt": Point(50.11, 8.68),
    "Freiburg": Point(48.00, 7.85),
    "Hamburg": Point(53.55, 9.99),
    "Hanover": Point(52.37, 9.73),
    "Hof": Point(50.31, 11.91),
    "Karlsruhe": Point(49.01, 8.40),
    "Kassel": Point(51.31, 9.48),
    "Kempten": Point(47.73, 10.32),
    "Kiel": Point(54.32, 10.14),
    "Koblenz": Point(50.36, 7.59),
    "Leipzig": Point(51.34, 12.37),
    "Lübeck": Point(53.87, 10.69),
    "Magdeburg": Point(52.13, 11.63),
    "Mannheim": Point(49.49, 8.47),
    "Munich": Point(48.14, 11.58),
    "Münster": Point(51.96, 7.63),
    "Nuremberg": Point(49.45, 11.08),
    "Osnabrück": Point(52.28, 8.05),
    "Passau": Point(48.57, 13.45),
    "Regensburg": Point(49.01, 12.10),
    "Rostock": Point(54.09, 12.10),
    "Saarbrücken": Point(49.24, 6.99),
    "Schwerin": Point(53.63, 11.41),
    "Stralsund": Point(54.31, 13.09),
    "Stuttgart": Point(48.78, 9.18),
    "Trier": Point(49.75, 6.64),
    "Ulm": Point(48.40, 9.99),
    "Würzburg": Point(49.79, 9.95),
}

ROADS = [
    ("Augsburg", "Munich"),
    ("Augsburg", "Nuremberg"),
    ("Berlin", "Cottbus"),
    ("Berlin", "Leipzig"),
    ("Berlin", "Magdeburg"),
    ("Berlin", "Rostock"),
    ("Berlin", "Schwerin"),
    ("Berlin", "Stralsund"),
    ("Bielefeld", "Dortmund"),
    ("Bielefeld", "Hanover"),
    ("Bielefeld", "Osnabrück"),
    ("Bielefeld", "Kassel"),
    ("Bremen", "Emden"),
    ("Bremen", "Hamburg"),
    ("Bremen", "Hanover"),
    ("Bremen", "Osnabrück"),
    ("Chemnitz", "Dresden"),
    ("Chemnitz", "Erfurt"),
    ("Chemnitz", "Hof"),
    ("Chemnitz", "Leipzig"),
    ("Cologne", "Dortmund"),
    ("Cologne", "Frankfurt"),
    ("Cologne", "Koblenz"),
    ("Cottbus", "Dresden"),
    ("Dortmund", "Kassel"),
    ("Dortmund", "Münster"),
    ("Dresden", "Leipzig"),
    ("Emden", "Osnabrück"),
    ("Erfurt", "Kassel"),
    ("Erfurt", "Leipzig"),
    ("Erfurt", "Würzburg"),
    ("Flensburg", "Hamburg"),
    ("Flensburg", "Kiel"),
    ("Frankfurt", "Kassel"),
    ("Frankfurt", "Koblenz"),
    ("Frankfurt", "Mannheim"),
    ("Frankfurt", "Würzburg"),
    ("Freiburg", "Karlsruhe"),
    ("Hamburg", "Hanover"),
    ("Hamburg", "Kiel"),
    ("Hamburg", "Lübeck"),
    ("Hamburg", "Schwerin"),
    ("Hanover", "Kassel"),
    ("Hanover", "Magdeburg"),
    ("Hof", "Leipzig"),
    ("Hof", "Nuremberg"),
    ("Hof", "Regensburg"),
    ("Karlsruhe", "Mannheim"),
    ("Karlsruhe", "Stuttgart"),
    ("Kassel", "Magdeburg"),
    ("Kassel", "Würzburg"),
    ("Kempten", "Munich"),
    ("Kempten", "Ulm"),
    ("Koblenz", "Trier"),
    ("Leipzig", "Magdeburg"),
    ("Lübeck", "Rostock"),
    ("Magdeburg", "Schwerin"),
    ("Mannheim", "Saarbrücken"),
    ("Munich", "Nuremberg"),
    ("Munich", "Passau"),
    ("Munich", "Regensburg"),
    ("Münster", "Osnabrück"),
    ("Nuremberg", "Regensburg"),
    ("Nuremberg", "Würzburg"),
    ("Passau", "Regensburg"),
    ("Rostock", "Stralsund"),
    ("Saarbrücken", "Trier"),
    ("Stuttgart", "Ulm"),
    ("Stuttgart", "Würzburg"),
    ("Augsburg", "Ulm"),
    ("Freiburg", "Stuttgart"),
]

ZONES = [
    Zone(name="Munich", center=Point(48.14, 11.58), radius_km=15.0),
    Zone(name="Berlin", center=Point(52.52, 13.40), radius_km=15.0),
    Zone(name="Harz", center=Point(51.72, 10.60), radius_km=30.0),
]

BORDER = [
    Point(lat, lon)
    for lon, lat in [
        *((9.43, 54.82), (9.95, 54.72), (10.02, 54.47), (10.20, 54.33), (10.75, 54.32)),
        *((11.10, 54.42), (11.05, 54.17), (10.80, 53.97), (11.35, 53.95), (11.95, 54.16)),
        *((12.45, 54.30), (12.50, 54.47), (13.00, 54.46), (13.42, 54.68), (13.72, 54.30)),
        *((13.82, 54.10), (14.22, 53.92), (14.28, 53.70), (14.42, 53.25), (14.14, 52.85)),
        *((14.62, 52.60), (14.55, 52.30), (14.74, 52.05), (14.60, 51.80), (14.75, 51.55)),
        *((15.03, 51.28), (14.98, 51.10), (14.82, 50.87), (14.55, 50.93), (14.30, 51.03)),
        *((13.95, 50.80), (13.45, 50.65), (12.95, 50.42), (12.50, 50.38), (12.18, 50.27)),
        *((12.20, 50.10), (12.50, 49.95), (12.42, 49.72), (12.65, 49.43), (13.02, 49.27)),
        *((13.40, 48.97), (13.83, 48.77), (13.73, 48.53), (13.45, 48.56), (13.30, 48.30)),
        *((12.90, 48.20), (12.80, 48.00), (12.98, 47.80), (13.05, 47.50), (12.75, 47.66)),
        *((12.20, 47.62), (11.62, 47.58), (11.20, 47.42), (10.90, 47.48), (10.45, 47.56)),
        *((10.20, 47.28), (10.00, 47.52), (9.72, 47.55), (9.20, 47.67), (8.90, 47.66)),
        *((8.62, 47.78), (8.42, 47.58), (8.00, 47.56), (7.60, 47.57), (7.58, 48.00)),
        *((7.78, 48.45), (7.98, 48.72), (8.22, 48.97), (7.60, 49.06), (7.10, 49.13)),
        *((6.72, 49.18), (6.40, 49.47), (6.50, 49.78), (6.13, 50.12), (6.38, 50.38)),
        *((6.10, 50.72), (5.98, 51.05), (6.22, 51.40), (6.00, 51.80), (6.68, 51.92)),
        *((7.03, 52.22), (6.75, 52.55), (7.05, 52.65), (7.08, 52.88), (7.20, 53.20)),
        *((7.00, 53.35), (7.10, 53.60), (7.60, 53.68), (8.02, 53.70), (8.18, 53.45)),
        *((8.33, 53.55), (8.52, 53.60), (8.55, 53.87), (8.75, 53.90), (9.20, 53.86)),
        *((8.92, 54.02), (8.86, 54.28), (8.70, 54.38), (9.00, 54.52), (8.70, 54.75)),
        *((8.64, 54.90),),
    ]
]
"""A coarse outline of Germany, clockwise from Flensburg."""
