"""Releases of Apache Kafka and of others, as they describe themselves: APIs, versions, features.

The table of Apache Kafka is written by `compat/releases/table.py` from the jars that are published
of each minor release, in its last patch; up to 3.2 it holds what brokers with ZooKeeper advertise,
then those without. That of Redpanda is written by `compat/releases/redpanda.py` from its sources.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    Ranges: TypeAlias = Mapping[str, tuple[int, int]]

TABLE = Path(__file__).with_name("apache_releases.csv")
REDPANDA = Path(__file__).with_name("redpanda.csv")
OTHERS = "redpanda-"


class UnknownVersion(ValueError):
    """Nothing is known of this version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    number: tuple[int, ...]
    is_apache: bool
    apis: Ranges
    """The lowest and the highest version of each, by its name in capitals."""
    features: Ranges


def release_named(version: str) -> Release:
    """`2.8`, or `2.8.1`, for patches change no versions; `redpanda-24.3`."""
    minor = ".".join(version.split(".")[:2])
    found = releases().get(minor)
    if found is None:
        raise UnknownVersion(f"nothing is known of version {version!r}, but of {known_versions()}")
    return found


def known_versions() -> str:
    return ", ".join(releases())


@cache
def releases() -> dict[str, Release]:
    return read_table(TABLE) | read_table(REDPANDA)


def read_table(table: Path) -> dict[str, Release]:
    lines = table.read_text(encoding="utf-8").splitlines()
    head, *rows = (line.split(",") for line in lines)
    return {name: read_release(name, rows, column) for column, name in enumerate(head) if name}


def read_release(name: str, rows: list[list[str]], column: int) -> Release:
    """APIs have names in capitals, features have dots."""
    ranges = {row[0]: read_range(row[column]) for row in rows if row[column]}
    return Release(
        number=tuple(map(int, name.removeprefix(OTHERS).split("."))),
        is_apache=not name.startswith(OTHERS),
        apis={it: found for it, found in ranges.items() if it.isupper()},
        features={it: found for it, found in ranges.items() if not it.isupper()},
    )


def read_range(text: str) -> tuple[int, int]:
    lowest, _, highest = text.partition("-")
    return int(lowest), int(highest)
