"""Differences between requests and the recording, field by field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

FIELDS_SHOWN_MAX: Final = 20
LETTERS_MAX: Final = 120
DIFFERENCES_SHOWN_MAX: Final = 10
DIFFERENCES_MAX: Final = 1_000
"""Maximum number of stored differences: each retry of a client can be a new one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A request that differs from the recording, or a recorded request that is missing."""

    what: str
    fields: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join((self.what, *(f"    {it}" for it in self.fields)))


class Differences:
    """Differences with their counts: clients retry failed requests."""

    def __init__(self, found: Iterable[Difference] = ()) -> None:
        self._times: dict[Difference, int] = {}
        for it in found:
            self.add(it)

    def add(self, difference: Difference) -> None:
        if difference in self._times:
            self._times[difference] += 1
        elif len(self._times) < DIFFERENCES_MAX:
            self._times[difference] = 1

    def together_with(self, others: Iterable[Difference]) -> Differences:
        both = Differences(others)
        both._times = self._times | both._times
        return both

    def __iter__(self) -> Iterator[Difference]:
        return iter(self._times)

    def __len__(self) -> int:
        return len(self._times)

    def __str__(self) -> str:
        shown = list(self._times.items())[:DIFFERENCES_SHOWN_MAX]
        lines = [str(it) if times == 1 else f"{it}\n    ({times} times)" for it, times in shown]
        if len(self) > len(shown):
            lines.append(f"… and {len(self) - len(shown)} more")
        return "\n".join(lines)


class ReplayDiffers(AssertionError):
    """Raised if the requests of clients differ from the recording."""

    def __init__(self, file: str, differences: Differences) -> None:
        super().__init__(f"requests differ from the recording {file}:\n{differences}")


class Unrecorded(Exception):
    """Raised for a request without a matching exchange in the recording."""

    def __init__(self, difference: Difference) -> None:
        self.difference = difference
        super().__init__(str(difference))


def differing_fields(recorded: Any, requested: Any) -> tuple[str, ...]:
    found = list(walk(recorded, requested, ""))
    shown = found[:FIELDS_SHOWN_MAX]
    if len(found) > len(shown):
        shown.append(f"… and {len(found) - len(shown)} more fields")
    return tuple(shown)


def walk(recorded: Any, requested: Any, path: str) -> Iterator[str]:
    if isinstance(recorded, dict) and isinstance(requested, dict):
        for name in {**recorded, **requested}:
            inner = f"{path}.{name}" if path else name
            yield from walk(recorded.get(name), requested.get(name), inner)
    elif isinstance(recorded, list) and isinstance(requested, list):
        yield from walk_rows(recorded, requested, path)
    elif recorded != requested:
        yield f"{path}: recorded {shown(recorded)}, now {shown(requested)}"


def walk_rows(recorded: list[Any], requested: list[Any], path: str) -> Iterator[str]:
    """Compares rows regardless of order: removes equal rows and compares the rest pairwise."""
    only_recorded = [it for it in recorded if it not in requested]
    only_requested = [it for it in requested if it not in recorded]
    both = min(len(only_recorded), len(only_requested))
    for number in range(both):
        yield from walk(only_recorded[number], only_requested[number], f"{path}[{number}]")
    for row in only_recorded[both:]:
        yield f"{path}: recorded {shown(row)}, now missing"
    for row in only_requested[both:]:
        yield f"{path}: now {shown(row)}, not recorded"


def shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= LETTERS_MAX else f"{text[:LETTERS_MAX]}…"


def distance(recorded: Any, requested: Any) -> int:
    return sum(1 for _ in walk(recorded, requested, ""))
