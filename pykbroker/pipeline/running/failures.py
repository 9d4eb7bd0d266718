"""Why a query failed, in one line: Spark tells it with everything around."""

from __future__ import annotations

import re
from typing import Final

RAISED: Final = re.compile(r"\[USER_RAISED_EXCEPTION\] (.+?)(?: SQLSTATE: \w+)?$", re.MULTILINE)
AROUND: Final = re.compile(
    r"^\[STREAM_FAILED\] Query \[.*?\] terminated with exception: |"
    r"(?: SQLSTATE: \w+)\s*$|(?<=\w);$"
)
OF_PYTHON: Final = re.compile(r"(?:\w+\.)*(\w+)(?:: (.+))?")
BETWEEN_LANGUAGES: Final = ("Py4J", "PythonException")
TRACEBACK: Final = "Traceback (most recent call last):"


class CannotStart(Exception):
    """Spark does not understand a query of the pipeline; nothing was begun."""


class PipelineFailed(Exception):
    """A query of the pipeline ended by a mistake, and the others were stopped."""


def failure_cause(text: str) -> str:
    """The sentence that matters: what SQL raised, what Python raised last, or Spark's first."""
    if raised := RAISED.search(text):
        return raised[1].strip()
    if raised_by_python := last_words(text.splitlines()):
        return AROUND.sub("", raised_by_python)
    first = next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")
    return AROUND.sub("", AROUND.sub("", first))


def last_words(lines: list[str]) -> str | None:
    """How the innermost Python traceback ends: with the first line that is not indented."""
    ends = []
    for number, line in enumerate(lines):
        if line.endswith(TRACEBACK):
            rest = (it for it in lines[number + 1 :] if it.strip() and not it[0].isspace())
            ends.append(next(rest, ""))
    said = [found for end in ends if (found := OF_PYTHON.fullmatch(end.rstrip()))]
    own = [found for found in said if not found[1].startswith(BETWEEN_LANGUAGES)]
    return ": ".join(filter(None, own[-1].groups())) if own else None
