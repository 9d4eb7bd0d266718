"""How single values are read: of a JSON document, of a query, or of the command line's text."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, TypeVar

from pykbroker.testing.control.http import HttpRefusal

Read: TypeAlias = Callable[[Any], Any]
Found = TypeVar("Found")

SECONDS_MAX: Final = 86_400.0
COUNT_MAX: Final = 2**31 - 1
TIMESTAMP_MS_MAX: Final = 2**63 - 1
TEXT_LENGTH_MAX: Final = 1_000


def read_argument(name: str, read: Callable[[Any], Found], value: Any) -> Found:
    """Raises HttpRefusal, which names it."""
    try:
        return read(value)
    except (TypeError, ValueError) as reason:
        raise HttpRefusal(400, f"{name}: {reason}") from None


def read_given(
    document: Mapping[str, Any], name: str, read: Callable[[Any], Found]
) -> Found | None:
    """What the document says of the name, None if it says nothing."""
    value = document.get(name)
    return None if value is None else read_argument(name, read, value)


def as_text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > TEXT_LENGTH_MAX:
        raise TypeError("this is no short text")
    return value


def as_count(value: Any) -> int:
    return whole_number(value, COUNT_MAX)


def as_timestamp(value: Any) -> int:
    return whole_number(value, TIMESTAMP_MS_MAX)


def whole_number(value: Any, maximum: int) -> int:
    """The command line knows only text."""
    if isinstance(value, str) and value.isascii() and value.isdecimal():
        value = int(value[: len(str(maximum)) + 1])
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= maximum:
        raise ValueError(f"this is no whole number from 0 to {maximum}")
    return value


def as_number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise TypeError("this is no number")
    try:
        return float(value)
    except (ValueError, OverflowError):
        raise ValueError("this is no number") from None


def as_seconds(value: Any) -> float:
    found = as_number(value)
    if not 0 <= found <= SECONDS_MAX:
        raise ValueError(f"this is no number of seconds up to {SECONDS_MAX:g}")
    return found


def as_list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError("this is no list")
    return value


def as_object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError("this is no object")
    return value


def as_property(value: Any) -> str | float | bool:
    """As a property of Kafka may be written."""
    if not isinstance(value, (str, int, float)):
        raise TypeError("this is no text, number or truth value")
    return value


def as_decoded(value: Any) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (TypeError, ValueError):
        raise ValueError("this is no base64") from None
