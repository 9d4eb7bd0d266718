"""APIs, versions and features of releases of Apache Kafka and Redpanda.

`compat/releases/table.py` writes the table of Apache Kafka from the jars of the last patch of each
minor release: of brokers with ZooKeeper up to 3.2, of KRaft brokers from 3.3.
`compat/releases/redpanda.py` writes the table of Redpanda from its source code.
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
    """Raised for a release that is not in the tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    number: tuple[int, ...]
    is_apache: bool
    apis: Ranges
    """The lowest and highest version of each API, by its name in capitals."""
    features: Ranges


def release_named(version: str) -> Release:
    """Returns a release such as `2.8`, `2.8.1` (patches change no versions) or `redpanda-24.3`."""
    minor = ".".join(version.split(".")[:2])
    found = releases().get(minor)
    if found is None:
        raise UnknownVersion(f"unknown version {version!r}; known versions: {known_versions()}")
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
    """Reads a column. Names of APIs are in capitals, other rows are features."""
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
