"""What a run found: one outcome for each client, scenario and broker."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


class Outcome(StrEnum):
    """How one cell of the matrix came out."""

    PASSED = "true"
    FAILED = "false"
    CANNOT = "cannot"
    """The library has no way to do it, or fails it on any broker; the manifest says why."""
    NOT_SERVED = "not served"
    """The broker does not offer an API without which there is nothing to try, and says so."""
    NOT_TRIED = "not tried"
    """The client or the broker could not be had."""

    @property
    def sign(self) -> str:
        return SIGNS[self]


SIGNS = {
    Outcome.PASSED: "✓",
    Outcome.FAILED: "✗",
    Outcome.CANNOT: "-",
    Outcome.NOT_SERVED: "○",
    Outcome.NOT_TRIED: "?",
}
NOT_RUN = frozenset({Outcome.CANNOT, Outcome.NOT_SERVED, Outcome.NOT_TRIED})


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownFrame:
    """A frame as it is shown: its headline, and its fields one a line."""

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
    """Of whatever is not true: why."""
    steps: tuple[tuple[str, str, str], ...] = ()
    frames: tuple[ShownFrame, ...] = ()
    errors: str = ""
    """The last that the client's program wrote to its standard error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """A run as reports are made of it."""

    day: str
    seconds: float
    suite: str
    """The version of PyKBroker that the suite is part of."""
    machine: str
    clients: tuple[str, ...]
    brokers: tuple[str, ...]
    scenarios: tuple[tuple[str, str, str], ...]
    """Name, subject and sentence of each."""
    cells: tuple[Cell, ...]

    def by_place(self) -> dict[tuple[str, str, str], Cell]:
        return {(it.scenario, it.client, it.broker): it for it in self.cells}

    def count(self, outcome: Outcome, broker: str | None = None) -> int:
        return sum(it.outcome == outcome and broker in (None, it.broker) for it in self.cells)

    def was_tried(self) -> bool:
        played = (Outcome.PASSED, Outcome.FAILED, Outcome.NOT_SERVED)
        return any(it.outcome in played for it in self.cells)

    def failures(self) -> list[Cell]:
        return [it for it in self.cells if it.outcome == Outcome.FAILED]

    def true_everywhere(self) -> list[tuple[str, str]]:
        """The scenarios and clients of which that is so on every broker."""
        found: dict[tuple[str, str], set[Outcome]] = {}
        for it in self.cells:
            found.setdefault((it.scenario, it.client), set()).add(it.outcome)
        return [place for place, outcomes in found.items() if outcomes == {Outcome.PASSED}]

    def subjects(self) -> dict[str, list[tuple[str, str]]]:
        """Name and sentence of the scenarios of each subject."""
        found: dict[str, list[tuple[str, str]]] = {}
        for name, subject, sentence in self.scenarios:
            found.setdefault(subject, []).append((name, sentence))
        return found

    def players(self, subject: str) -> list[str]:
        """The clients that anything about a subject was tried with."""
        names = {name for name, its, _ in self.scenarios if its == subject}
        found = {it.client for it in self.cells if it.scenario in names}
        return [it for it in self.clients if it in found]

    def write(self, file: Path) -> None:
        file.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n")

    @classmethod
    def read(cls, file: Path) -> Self:
        told = json.loads(file.read_text())
        return cls(**{**told, **_tuples(told), "cells": tuple(map(_cell, told["cells"]))})


def _tuples(told: dict[str, Any]) -> dict[str, Any]:
    return {
        "clients": tuple(told["clients"]),
        "brokers": tuple(told["brokers"]),
        "scenarios": tuple(tuple(it) for it in told["scenarios"]),
    }


def _cell(told: dict[str, Any]) -> Cell:
    changed = {
        "outcome": Outcome(told["outcome"]),
        "steps": tuple(tuple(it) for it in told["steps"]),
        "frames": tuple(_told_frames(told["frames"])),
    }
    return Cell(**(told | changed))


def _told_frames(frames: Iterable[dict[str, Any]]) -> Iterable[ShownFrame]:
    return (ShownFrame(headline=it["headline"], lines=tuple(it["lines"])) for it in frames)
