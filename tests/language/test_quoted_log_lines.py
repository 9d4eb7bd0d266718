"""Log lines quoted in docs/operations.md, docs/cli.md and docs/cluster.md exist in the code."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[2]
SOURCES: Final = ("pykbroker", "storage/pykbroker_storage", "protocol/pykbroker_protocol")
QUOTE: Final = re.compile(r"`([^`]+)`", re.DOTALL)
IS_LOG_LINE: Final = re.compile(r"(?:[\w.…-]+(?:-\d+)?|metadata log|[\w .()-]+): \S+ \S+ \S+")
PLACEHOLDER: Final = re.compile(r"%[-+ #0]*[\d.]*[sdfgrx]")
FRAGMENT_CHARACTERS_MIN: Final = 14
"""Shorter pieces of a line occur in unrelated lines."""


@cache
def pieces_of_messages() -> frozenset[str]:
    """Returns the constant parts of all strings in product code, split at their placeholders."""
    found: set[str] = set()
    for source in SOURCES:
        for path in (ROOT / source).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    found.update(PLACEHOLDER.split(node.value))
    return frozenset(it for it in found if len(it.strip()) >= FRAGMENT_CHARACTERS_MIN)


def quoted_lines(page: str) -> Iterator[str]:
    text = re.sub(r"```.*?```", "", page, flags=re.DOTALL)
    for quote in QUOTE.findall(text):
        line = " ".join(quote.split())
        if IS_LOG_LINE.match(line):
            yield line


def exists(line: str) -> bool:
    """Whether a message has a piece of this line, or the line a piece of a message."""
    fragments = [it for it in re.split("…", line) if len(it.strip()) >= FRAGMENT_CHARACTERS_MIN]
    return any(
        piece.strip() in line or any(fragment.strip() in piece for fragment in fragments)
        for piece in pieces_of_messages()
    )


LINES: Final = sorted(
    {
        line
        for page in ("docs/operations.md", "docs/cli.md", "docs/cluster.md")
        for line in quoted_lines((ROOT / page).read_text(encoding="utf-8"))
    }
)


def test_documents_contain_quoted_log_lines() -> None:
    assert len(LINES) >= 15


@pytest.mark.parametrize("line", LINES)
def test_quoted_log_line_exists_in_the_code(line: str) -> None:
    assert exists(line), f"no message of the code contains a piece of: {line}"


def test_an_unknown_log_line_is_detected() -> None:
    assert not exists("orders-0: appends are fine again after 42 s")
