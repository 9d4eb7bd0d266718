"""Results of a run: one outcome for each client, scenario and broker."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


class Outcome(StrEnum):
    """Result of a cell of the matrix. The values are stored in results.json."""

    PASSED = "true"
    FAILED = "false"
    CANNOT = "cannot"
    """The library lacks a feature, or fails on every broker; the manifest gives the reason."""
    NOT_SERVED = "not served"
    """The broker does not advertise a required API."""
    NOT_TRIED = "not tried"
    """The client or the broker is not available."""

    @property
    def sign(self) -> str:
        return SIGNS[self]

    @property
    def label(self) -> str:
        return LABELS[self]


SIGNS = {
    Outcome.PASSED: "✓",
    Outcome.FAILED: "✗",
    Outcome.CANNOT: "-",
    Outcome.NOT_SERVED: "○",
    Outcome.NOT_TRIED: "?",
}
LABELS = {
    Outcome.PASSED: "passed",
    Outcome.FAILED: "failed",
    Outcome.CANNOT: "not supported by the client",
    Outcome.NOT_SERVED: "not supported by the broker",
    Outcome.NOT_TRIED: "not run",
}
NOT_RUN = frozenset({Outcome.CANNOT, Outcome.NOT_SERVED, Outcome.NOT_TRIED})


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownFrame:
    """A frame in a report: headline and decoded fields."""

    headline: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    client: str
    scenario: str
    broker: str
    outcome: Outcome
    seconds: float = 0.0
    reason: str = ""
    """Empty for a passed cell."""
    steps: tuple[tuple[str, str, str], ...] = ()
    frames: tuple[ShownFrame, ...] = ()
    errors: str = ""
    """End of the standard error of the client's program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """A complete run, the input of all reports."""

    day: str
    seconds: float
    suite: str
    """PyKBroker version of the suite."""
    machine: str
    clients: tuple[str, ...]
    brokers: tuple[str, ...]
    scenarios: tuple[tuple[str, str, str], ...]
    """Name, subject and sentence of each scenario."""
    cells: tuple[Cell, ...]

    def by_place(self) -> dict[tuple[str, str, str], Cell]:
        return {(it.scenario, it.client, it.broker): it for it in self.cells}

    def count(self, outcome: Outcome, broker: str | None = None) -> int:
        return sum(it.outcome == outcome and broker in (None, it.broker) for it in self.cells)

    def has_run(self) -> bool:
        """Returns whether at least one cell ran."""
        played = (Outcome.PASSED, Outcome.FAILED, Outcome.NOT_SERVED)
        return any(it.outcome in played for it in self.cells)

    def failures(self) -> list[Cell]:
        return [it for it in self.cells if it.outcome == Outcome.FAILED]

    def passed_everywhere(self) -> list[tuple[str, str]]:
        """Returns scenario and client of the cells that passed on every broker."""
        found: dict[tuple[str, str], set[Outcome]] = {}
        for it in self.cells:
            found.setdefault((it.scenario, it.client), set()).add(it.outcome)
        return [cell for cell, outcomes in found.items() if outcomes == {Outcome.PASSED}]

    def subjects(self) -> dict[str, list[tuple[str, str]]]:
        """Returns name and sentence of the scenarios of each subject."""
        found: dict[str, list[tuple[str, str]]] = {}
        for name, subject, sentence in self.scenarios:
            found.setdefault(subject, []).append((name, sentence))
        return found

    def players(self, subject: str) -> list[str]:
        """Returns the clients that have cells of a subject."""
        names = {name for name, its, _ in self.scenarios if its == subject}
        found = {it.client for it in self.cells if it.scenario in names}
        return [it for it in self.clients if it in found]

    def write(self, file: Path) -> None:
        file.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n")

    @classmethod
    def read(cls, file: Path) -> Self:
        stored = json.loads(file.read_text())
        return cls(**{**stored, **_tuples(stored), "cells": tuple(map(_cell, stored["cells"]))})


def _tuples(stored: dict[str, Any]) -> dict[str, Any]:
    return {
        "clients": tuple(stored["clients"]),
        "brokers": tuple(stored["brokers"]),
        "scenarios": tuple(tuple(it) for it in stored["scenarios"]),
    }


def _cell(stored: dict[str, Any]) -> Cell:
    converted = {
        "outcome": Outcome(stored["outcome"]),
        "steps": tuple(tuple(it) for it in stored["steps"]),
        "frames": tuple(_shown_frames(stored["frames"])),
    }
    return Cell(**(stored | converted))


def _shown_frames(frames: Iterable[dict[str, Any]]) -> Iterable[ShownFrame]:
    return (ShownFrame(headline=it["headline"], lines=tuple(it["lines"])) for it in frames)
