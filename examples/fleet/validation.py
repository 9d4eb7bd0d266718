"""Reads values of untrusted records; raises ValueError for invalid ones."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

NUMBER_MAX = 1e6
"""Limit of all numbers in records; also excludes infinity and NaN."""
TIME_MIN = datetime.fromtimestamp(0, UTC)


def fields_of(value: bytes | None) -> dict[str, Any]:
    try:
        found = json.loads(value or b"")
    except RecursionError as reason:
        raise ValueError("value is nested too deeply") from reason
    if not isinstance(found, dict):
        raise ValueError(f"value is a {type(found).__name__}, not an object")  # noqa: TRY004  # an invalid value, not a bug
    return found


def number(found: Any) -> float:
    try:
        read = float(found)
    except OverflowError as reason:
        raise ValueError("number is too large") from reason
    if not abs(read) <= NUMBER_MAX:
        raise ValueError(f"{read} is not in the range of numbers")
    return read


def time_of(found: Any) -> datetime:
    """Returns the time in UTC; the text must have a time zone."""
    read = datetime.fromisoformat(found)
    if read.tzinfo is None:
        raise ValueError(f"{found} does not have a time zone")
    try:
        read = read.astimezone(UTC)
    except OverflowError as reason:
        raise ValueError(f"{found} is out of range") from reason
    if read < TIME_MIN:
        raise ValueError(f"{found} is before 1970")
    return read


def text(found: Any) -> str:
    """Returns a string that can be encoded; JSON allows lone surrogates."""
    read = str(found)
    read.encode()
    return read
