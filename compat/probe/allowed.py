"""Allowed differences between two brokers. known_differences.md explains them."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from compat.probe.normalized import Normalized

ALLOWED = Path(__file__).with_name("allowed.toml")
KNOWN_DIFFERENCES = Path(__file__).parents[1] / "known_differences.md"
ALL_OF_IT = "(all)"


class Difference(NamedTuple):
    """A response field that differs, and the API and variation of the request."""

    api: str
    note: str
    path: str
    left: Normalized
    right: Normalized

    @property
    def place(self) -> str:
        note = f" [{self.note}]" if self.note else ""
        return f"{self.api}{note} {self.path or ALL_OF_IT}"


class Allowed(NamedTuple):
    """Response fields that may differ. `*` matches any text."""

    places: tuple[str, ...]
    section: str = ""
    """Section of known_differences.md that explains the difference."""
    own: str = ""
    """Set instead of `section` if each broker has its own value and clients ignore it."""
    thorough: bool = False
    """Whether the difference occurs only with `--thorough`, in older versions."""

    def covers(self, it: Difference) -> bool:
        return any(_fits(place, it) for place in self.places)


def read_allowed(file: Path = ALLOWED) -> list[Allowed]:
    rows = tomllib.loads(file.read_text())["allowed"]
    return [Allowed(**{**it, "places": tuple(it["places"])}) for it in rows]


def unused_places(allowed: Iterable[Allowed], found: Iterable[Difference]) -> Iterator[str]:
    """Yields allowed places without a difference, except those that need `--thorough`."""
    found = list(found)
    for rule in (it for it in allowed if not it.thorough):
        yield from (place for place in rule.places if not any(_fits(place, it) for it in found))


def _fits(place: str, it: Difference) -> bool:
    return _pattern(place).fullmatch(it.place) is not None


@cache
def _pattern(place: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, place.split("*"))))
