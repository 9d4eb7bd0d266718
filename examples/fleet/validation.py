"""Reads what anybody may have written: whatever is not as it should be is a ValueError."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

GREATEST = 1e6
"""No speed, direction, place or count of ours is beyond it; infinity and NaN are not either."""
FIRST_MOMENT = datetime.fromtimestamp(0, UTC)


def fields_of(value: bytes | None) -> dict[str, Any]:
    try:
        found = json.loads(value or b"")
    except RecursionError as reason:
        raise ValueError("it is nested too deeply") from reason
    if not isinstance(found, dict):
        raise ValueError(f"it is a {type(found).__name__}")  # noqa: TRY004  # of the value, not of ours
    return found


def number(found: Any) -> float:
    try:
        read = float(found)
    except OverflowError as reason:
        raise ValueError("a number is too large") from reason
    if not abs(read) <= GREATEST:
        raise ValueError(f"{read} is no number that could be meant")
    return read


def moment(found: Any) -> datetime:
    """Without a zone it could be any of 24 hours."""
    read = datetime.fromisoformat(found)
    if read.tzinfo is None:
        raise ValueError(f"{found} has no time zone")
    try:
        read = read.astimezone(UTC)
    except OverflowError as reason:
        raise ValueError(f"{found} is outside of time") from reason
    if read < FIRST_MOMENT:
        raise ValueError(f"{found} is before there were trucks that report")
    return read


def text(found: Any) -> str:
    """One that can be written again; JSON can name halves of letters."""
    read = str(found)
    read.encode()
    return read
