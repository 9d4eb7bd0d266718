"""What a scenario is: something that is to be true of a broker, whoever the client."""

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
"""What every client library is tried with."""
SUBJECTS = (*LIBRARY_SUBJECTS, "tools", "connect", "streams", "mirroring", "spark")
"""All of them; what is more than a library says in its manifest which it plays."""
SCENARIOS_FOLDER = Path(__file__).parents[1] / "scenarios"


class Need(StrEnum):
    """What a scenario needs of the broker under test beyond an address."""

    RESTART = "restart"
    """The suite must have started the broker; the scenario runs alone."""
    FILES = "files"
    """The suite must have started the broker: its files are looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    name: str
    sentence: str
    play: Play
    subject: str
    """Reports put together what is about the same subject."""
    needs: frozenset[Need] = frozenset()
    timeout_seconds: float = TIMEOUT_SECONDS
    is_core: bool = False
    """Whether it belongs to the quick set."""


SCENARIOS: dict[str, Scenario] = {}


def scenario(
    name: str,
    sentence: str,
    *,
    needs: frozenset[Need] = frozenset(),
    timeout_seconds: float = TIMEOUT_SECONDS,
    core: bool = False,
) -> Callable[[Play], Play]:
    """Adds the scenario that a function plays."""

    def add(play: Play) -> Play:
        assert name not in SCENARIOS, f"two scenarios are called {name}"
        told_in = play.func if isinstance(play, partial) else play
        subject = told_in.__module__.rpartition(".")[2].replace("_", " ")
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
    """Those of every module of the folder, subject by subject, in the order of the module."""
    for module in sorted(SCENARIOS_FOLDER.glob("*.py")):
        import_module(f"compat.scenarios.{module.stem}")
    return sorted(SCENARIOS.values(), key=lambda it: _place(it.subject))


def _place(subject: str) -> tuple[int, str]:
    """What is simple first; a subject that is not listed comes last."""
    known = SUBJECTS.index(subject) if subject in SUBJECTS else len(SUBJECTS)
    return known, subject
