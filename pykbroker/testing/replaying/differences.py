"""How a request differs from the one that was recorded, field by field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

FIELDS_SHOWN_MAX: Final = 20
LETTERS_MAX: Final = 120
DIFFERENCES_SHOWN_MAX: Final = 10
DIFFERENCES_MAX: Final = 1_000
"""That are remembered: a client that differs for good has a new one each time that it asks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One thing that a client did otherwise than when it was recorded."""

    what: str
    fields: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join((self.what, *(f"    {it}" for it in self.fields)))


class Differences:
    """Each once, with how often it came: what has failed is tried again."""

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
    """Clients asked for something else than was recorded."""

    def __init__(self, file: str, differences: Differences) -> None:
        super().__init__(f"requests differ from the recording {file}:\n{differences}")


class Unrecorded(Exception):
    """A request that nothing recorded answers."""

    def __init__(self, difference: Difference) -> None:
        self.difference = difference
        super().__init__(str(difference))


def differing_fields(recorded: Any, asked: Any) -> tuple[str, ...]:
    found = list(walk(recorded, asked, ""))
    shown = found[:FIELDS_SHOWN_MAX]
    if len(found) > len(shown):
        shown.append(f"… and {len(found) - len(shown)} more fields")
    return tuple(shown)


def walk(recorded: Any, asked: Any, path: str) -> Iterator[str]:
    if isinstance(recorded, dict) and isinstance(asked, dict):
        for name in {**recorded, **asked}:
            inner = f"{path}.{name}" if path else name
            yield from walk(recorded.get(name), asked.get(name), inner)
    elif isinstance(recorded, list) and isinstance(asked, list):
        yield from walk_rows(recorded, asked, path)
    elif recorded != asked:
        yield f"{path}: recorded {shown(recorded)}, now {shown(asked)}"


def walk_rows(recorded: list[Any], asked: list[Any], path: str) -> Iterator[str]:
    """Rows have no order: those that both have are left out, the others compared one by one."""
    only_recorded = [it for it in recorded if it not in asked]
    only_asked = [it for it in asked if it not in recorded]
    both = min(len(only_recorded), len(only_asked))
    for number in range(both):
        yield from walk(only_recorded[number], only_asked[number], f"{path}[{number}]")
    for row in only_recorded[both:]:
        yield f"{path}: recorded {shown(row)}, now missing"
    for row in only_asked[both:]:
        yield f"{path}: now {shown(row)}, not recorded"


def shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= LETTERS_MAX else f"{text[:LETTERS_MAX]}…"


def distance(recorded: Any, asked: Any) -> int:
    return sum(1 for _ in walk(recorded, asked, ""))
