"""Validates single values of a JSON document, a query string or the command line."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, TypeVar

from pykbroker.testing.control.http import HttpError

Read: TypeAlias = Callable[[Any], Any]
Found = TypeVar("Found")

SECONDS_MAX: Final = 86_400.0
COUNT_MAX: Final = 2**31 - 1
TIMESTAMP_MS_MAX: Final = 2**63 - 1
TEXT_LENGTH_MAX: Final = 1_000


def read_argument(name: str, read: Callable[[Any], Found], value: Any) -> Found:
    """Returns the validated value. Raises HttpError with the name of the argument."""
    try:
        return read(value)
    except (TypeError, ValueError) as reason:
        raise HttpError(400, f"{name}: {reason}") from None


def read_given(
    document: Mapping[str, Any], name: str, read: Callable[[Any], Found]
) -> Found | None:
    """Returns the validated value of a field, or None if it is missing or null."""
    value = document.get(name)
    return None if value is None else read_argument(name, read, value)


def as_text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > TEXT_LENGTH_MAX:
        raise TypeError(f"expected a string of at most {TEXT_LENGTH_MAX} characters")
    return value


def as_count(value: Any) -> int:
    return as_integer(value, COUNT_MAX)


def as_timestamp(value: Any) -> int:
    return as_integer(value, TIMESTAMP_MS_MAX)


def as_integer(value: Any, maximum: int) -> int:
    """Accepts decimal text, too: the command line and query strings have only text."""
    if isinstance(value, str) and value.isascii() and value.isdecimal():
        value = int(value[: len(str(maximum)) + 1])
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= maximum:
        raise ValueError(f"expected an integer from 0 to {maximum}")
    return value


def as_number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise TypeError("expected a number")
    try:
        return float(value)
    except (ValueError, OverflowError):
        raise ValueError("expected a number") from None


def as_seconds(value: Any) -> float:
    found = as_number(value)
    if not 0 <= found <= SECONDS_MAX:
        raise ValueError(f"expected seconds from 0 to {SECONDS_MAX:g}")
    return found


def as_list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError("expected a list")
    return value


def as_object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError("expected an object")
    return value


def as_property(value: Any) -> str | float | bool:
    """The value of a Kafka property."""
    if not isinstance(value, (str, int, float)):
        raise TypeError("expected a string, number or boolean")
    return value


def as_decoded(value: Any) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (TypeError, ValueError):
        raise ValueError("expected base64") from None
