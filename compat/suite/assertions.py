"""Assertions of scenarios; their messages appear in the report."""

from __future__ import annotations

from typing import Any

TEXT_MAX = 1_500


class ScenarioFailedError(AssertionError):
    """An assertion of a scenario failed."""


def must(condition: object, message: str) -> None:
    if not condition:
        raise ScenarioFailedError(message)


def must_equal(actual: Any, expected: Any, what: str) -> None:
    """Compares two values. For lists the message contains the first difference."""
    if actual == expected:
        return
    lines = [f"{what}:", f"    actual   {_text(actual)}", f"    expected {_text(expected)}"]
    if isinstance(actual, list) and isinstance(expected, list):
        lines.append(f"    {_first_difference(actual, expected)}")
    raise ScenarioFailedError("\n".join(lines))


def _first_difference(actual: list[Any], expected: list[Any]) -> str:
    for index, (one, other) in enumerate(zip(actual, expected, strict=False)):
        if one != other:
            return f"first difference at [{index}]: {_text(one)} instead of {_text(other)}"
    return f"{len(actual)} elements instead of {len(expected)}"


def _text(value: object) -> str:
    text = repr(value)
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}… ({len(text)} characters)"
