"""Extracts the cause of a failed query from Spark's error text as one line."""

from __future__ import annotations

import re
from typing import Final

RAISED: Final = re.compile(r"\[USER_RAISED_EXCEPTION\] (.+?)(?: SQLSTATE: \w+)?$", re.MULTILINE)
SURROUNDING_TEXT: Final = re.compile(
    r"^\[STREAM_FAILED\] Query \[.*?\] terminated with exception: |"
    r"(?: SQLSTATE: \w+)\s*$|(?<=\w);$"
)
PYTHON_ERROR: Final = re.compile(r"(?:\w+\.)*(\w+)(?:: (.+))?")
BRIDGE_ERRORS: Final = ("Py4J", "PythonException")
TRACEBACK: Final = "Traceback (most recent call last):"


class CannotStart(Exception):
    """Raised if Spark rejects a query of the pipeline; nothing was started."""


class PipelineFailed(Exception):
    """Raised if a query failed; the others were stopped."""


def failure_cause(text: str) -> str:
    """Returns the error raised by SQL, otherwise by Python, otherwise Spark's first line."""
    if raised := RAISED.search(text):
        return raised[1].strip()
    if raised_by_python := last_python_error(text.splitlines()):
        return SURROUNDING_TEXT.sub("", raised_by_python)
    first = next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")
    return SURROUNDING_TEXT.sub("", SURROUNDING_TEXT.sub("", first))


def last_python_error(lines: list[str]) -> str | None:
    """Returns the error of the innermost traceback: its first line without indentation."""
    ends = []
    for number, line in enumerate(lines):
        if line.endswith(TRACEBACK):
            rest = (it for it in lines[number + 1 :] if it.strip() and not it[0].isspace())
            ends.append(next(rest, ""))
    errors = [found for end in ends if (found := PYTHON_ERROR.fullmatch(end.rstrip()))]
    own = [found for found in errors if not found[1].startswith(BRIDGE_ERRORS)]
    return ": ".join(filter(None, own[-1].groups())) if own else None
