"""Levels of broker loggers: described and changed at run time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.apis.conversations.catalog import conversation
from tests.apis.conversations.configurations import (
    APPEND,
    DELETE,
    SET,
    SUBTRACT,
    altered,
    described,
)

if TYPE_CHECKING:
    from tests.apis.transcript import Transcript

LOGGER = 8
ROOT = "root"
HERE = "1"
OPERATIONS: dict[str, list[tuple[str, int, str | None]]] = {
    "louder": [(ROOT, SET, "WARN")],
    "quieter": [(ROOT, SET, "INFO")],
    "no level": [(ROOT, SET, "LOUD")],
    "in small letters": [(ROOT, SET, "info")],
    "off": [(ROOT, SET, "OFF")],
    "empty": [(ROOT, SET, "")],
    "null": [(ROOT, SET, None)],
    "nothing above": [(ROOT, DELETE, None)],
    "appended": [(ROOT, APPEND, "INFO")],
    "subtracted": [(ROOT, SUBTRACT, "INFO")],
    "unknown": [("no.such.logger", SET, "INFO")],
    "unknown, deleted": [("no.such.logger", DELETE, None)],
    "unknown, no level": [("no.such.logger", SET, "LOUD")],
    "one is wrong": [(ROOT, SET, "ERROR"), ("no.such.logger", SET, "INFO")],
    "twice": [(ROOT, SET, "ERROR"), (ROOT, SET, "INFO")],
    "nothing": [],
}


@conversation
def loggers_are_described(broker: Transcript) -> None:
    for version in (1, 2, 3, 4):
        for note, name, keys in (
            ("the root", HERE, [ROOT]),
            ("no such logger", HERE, ["no.such.logger"]),
            ("another broker", "9", None),
            ("all brokers", "", None),
            ("no broker", "here", None),
        ):
            broker.ask(described(name, LOGGER, keys, whole=version > 2), version, note=note)


@conversation
def levels_of_loggers_are_changed(broker: Transcript) -> None:
    for version in (0, 1):
        for note, operations in OPERATIONS.items():
            broker.ask(altered(HERE, *operations, kind=LOGGER), version, note=note)
            broker.ask(described(HERE, LOGGER, [ROOT]), 4, note=f"after {note}")
        tried = altered(HERE, (ROOT, SET, "ERROR"), kind=LOGGER, validate_only=True)
        broker.ask(tried, version, note="only tried")
        broker.ask(described(HERE, LOGGER, [ROOT]), 4, note="after only tried")
        for name in ("9", "", "here"):
            request = altered(name, (ROOT, SET, "INFO"), kind=LOGGER)
            broker.ask(request, version, note=repr(name))
