"""Problems of a declaration, each with the path of its key."""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class DeclarationRefused(Exception):
    """Raised for an invalid pipeline file; `problems` lists every error, not only the first."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


@dataclass(slots=True, kw_only=True)
class Problems:
    """Collects problems, so that one exception reports all of them."""

    found: list[Problem] = field(default_factory=list)

    def add(self, path: str, message: str) -> None:
        self.found.append(Problem(path=path, message=message))

    def raise_if_any(self) -> None:
        if self.found:
            raise DeclarationRefused(self.found)


def below(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def suggestion(word: str, known: Iterable[str]) -> str:
    """Returns ` (did you mean topics?)`, or an empty string."""
    close = get_close_matches(word, list(known), n=1)
    return f" (did you mean {close[0]}?)" if close else ""


def listed(words: Iterable[str]) -> str:
    """Returns `a, b or c`."""
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last
