"""What is compared, and what is said when it is not as it must be."""

from __future__ import annotations

from typing import Any

TEXT_MAX = 1_500


class ScenarioFailedError(AssertionError):
    """What a scenario says is not so; the message says what was found."""


def must(is_so: object, what: str) -> None:
    if not is_so:
        raise ScenarioFailedError(what)


def must_equal(found: Any, wanted: Any, what: str) -> None:
    """Compare; where two lists differ, the first place at which they do is named."""
    if found == wanted:
        return
    lines = [f"{what}:", f"    found  {_text(found)}", f"    wanted {_text(wanted)}"]
    if isinstance(found, list) and isinstance(wanted, list):
        lines.append(f"    {_first_difference(found, wanted)}")
    raise ScenarioFailedError("\n".join(lines))


def _first_difference(found: list[Any], wanted: list[Any]) -> str:
    for index, (one, other) in enumerate(zip(found, wanted, strict=False)):
        if one != other:
            return f"first at [{index}]: {_text(one)} instead of {_text(other)}"
    return f"{len(found)} instead of {len(wanted)}"


def _text(value: object) -> str:
    text = repr(value)
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}… ({len(text)} characters)"
