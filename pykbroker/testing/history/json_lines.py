"""Reads and writes histories as files with one JSON object per event.

Each line has the name of the event, the client, the time, and the fields that `events` declares;
a missing field is null. Records and positions are arrays.
"""

import json
from dataclasses import fields
from enum import StrEnum
from pathlib import Path
from typing import Any, get_args

from pykbroker.testing.history import events
from pykbroker.testing.history.events import Event, Position, Record

EVENTS: dict[str, type[Any]] = {
    "send": events.SendStarted,
    "send ended": events.SendEnded,
    "transaction begun": events.TransactionBegun,
    "transaction ending": events.TransactionEnding,
    "transaction ended": events.TransactionEnded,
    "polled": events.Polled,
    "moved": events.Moved,
    "offsets commit": events.OffsetsCommitStarted,
    "offsets commit ended": events.OffsetsCommitEnded,
}
"""Names of events in the file."""
_NAMES = {declared: name for name, declared in EVENTS.items()}
_FIELDS = {declared: [it.name for it in fields(declared)] for declared in _NAMES}
_OPTIONAL = {
    declared: [it.name for it in fields(declared) if type(None) in get_args(it.type)]
    for declared in _NAMES
}
_ENUMS: dict[str, type[StrEnum]] = {
    "isolation": events.Isolation,
    "outcome": events.Outcome,
    "ending": events.Ending,
    "ended": events.Ended,
    "move": events.MoveReason,
}


class MalformedHistoryError(ValueError):
    """Raised for a line that is not an event, or for a result without a matching start."""


def line_of(event: Event) -> bytes:
    found = {"event": _NAMES[type(event)]}
    for name in _FIELDS[type(event)]:
        value = getattr(event, name)
        if value is not None:
            found[name] = value
    return json.dumps(found).encode() + b"\n"


def read_lines(path: Path) -> list[Event]:
    whole, _, _ = path.read_bytes().rpartition(b"\n")
    found = []
    for number, line in enumerate(whole.splitlines(), 1):
        try:
            found.append(event_of(json.loads(line)))
        except (KeyError, TypeError, ValueError) as error:
            raise MalformedHistoryError(f"{path}, line {number}: {error!r}") from error
    return found


def event_of(line: dict[str, Any]) -> Event:
    declared = EVENTS[line.pop("event")]
    missing = {name: None for name in _OPTIONAL[declared] if name not in line}
    found: Event = declared(**missing, **{name: _value(name, it) for name, it in line.items()})
    return found


def _value(name: str, value: Any) -> Any:
    """Converts JSON values to records, positions and enums."""
    match name:
        case "records":
            return tuple(Record(*it) for it in value)
        case "positions":
            return tuple(Position(*it) for it in value)
        case _ if name in _ENUMS:
            return _ENUMS[name](value)
        case _:
            return value
