"""The differences between two brokers that are right: each is told in known_differences.md."""

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
    """A field in which two answers differ, and what was asked."""

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
    """Places at which two brokers may differ; in them `*` stands for anything."""

    places: tuple[str, ...]
    section: str = ""
    """Of known_differences.md, where it is told."""
    own: str = ""
    """Instead: what each broker has of its own there, and no client goes by."""
    thorough: bool = False
    """Whether it takes the questions to older versions to see it."""

    def covers(self, it: Difference) -> bool:
        return any(_fits(place, it) for place in self.places)


def read_allowed(file: Path = ALLOWED) -> list[Allowed]:
    rows = tomllib.loads(file.read_text())["allowed"]
    return [Allowed(**{**it, "places": tuple(it["places"])}) for it in rows]


def unused_places(allowed: Iterable[Allowed], found: Iterable[Difference]) -> Iterator[str]:
    """The places of which no difference was found, those apart that only many questions show."""
    found = list(found)
    for rule in (it for it in allowed if not it.thorough):
        yield from (place for place in rule.places if not any(_fits(place, it) for it in found))


def _fits(place: str, it: Difference) -> bool:
    return _pattern(place).fullmatch(it.place) is not None


@cache
def _pattern(place: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, place.split("*"))))
