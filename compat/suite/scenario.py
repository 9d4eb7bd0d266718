"""Scenarios: behaviour that a broker must show with every client."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from compat.suite.scenario_context import ScenarioContext

    Play = Callable[[ScenarioContext], None]

TIMEOUT_SECONDS = 60.0
LIBRARY_SUBJECTS = (
    "negotiating",
    "producing",
    "consuming",
    "groups",
    "committing",
    "transactions",
    "administering",
    "refusing",
    "connecting",
)
"""Subjects tested with every client library."""
SUBJECTS = (*LIBRARY_SUBJECTS, "tools", "connect", "streams", "mirroring", "spark")
"""All subjects. The manifest of a client that is not a library lists its subjects as `plays`."""
SCENARIOS_FOLDER = Path(__file__).parents[1] / "scenarios"


class Need(StrEnum):
    """Requirements of a scenario beyond the broker's address."""

    RESTART = "restart"
    """The suite must be able to restart the broker; the scenario runs alone."""
    FILES = "files"
    """The suite must have access to the broker's data directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    name: str
    sentence: str
    play: Play
    subject: str
    """Module of the scenario; reports group scenarios by subject."""
    needs: frozenset[Need] = frozenset()
    timeout_seconds: float = TIMEOUT_SECONDS
    is_core: bool = False
    """Whether the scenario belongs to the quick set."""


SCENARIOS: dict[str, Scenario] = {}


def scenario(
    name: str,
    sentence: str,
    *,
    needs: frozenset[Need] = frozenset(),
    timeout_seconds: float = TIMEOUT_SECONDS,
    core: bool = False,
) -> Callable[[Play], Play]:
    """Registers a function as a scenario."""

    def add(play: Play) -> Play:
        assert name not in SCENARIOS, f"two scenarios are called {name}"
        function = play.func if isinstance(play, partial) else play
        subject = function.__module__.rpartition(".")[2].replace("_", " ")
        SCENARIOS[name] = Scenario(
            name=name,
            sentence=sentence,
            play=play,
            subject=subject,
            needs=needs,
            timeout_seconds=timeout_seconds,
            is_core=core,
        )
        return play

    return add


def all_scenarios() -> list[Scenario]:
    """Returns the scenarios of all modules, by subject, in the order of definition."""
    for module in sorted(SCENARIOS_FOLDER.glob("*.py")):
        import_module(f"compat.scenarios.{module.stem}")
    return sorted(SCENARIOS.values(), key=lambda it: _sort_key(it.subject))


def _sort_key(subject: str) -> tuple[int, str]:
    """Orders subjects as in SUBJECTS; unlisted subjects come last."""
    known = SUBJECTS.index(subject) if subject in SUBJECTS else len(SUBJECTS)
    return known, subject
