"""Product code, documents and `--help` avoid the words of words.toml (CONTRIBUTING.md: why)."""

from __future__ import annotations

import argparse
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from pykbroker.cli.command_line import build_parser
from tests.language.texts import (
    Text,
    docstring_starts,
    names_of_python,
    prose_of_markdown,
    prose_of_python,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parent.parent
SOURCES: Final = (
    "pykbroker",
    "protocol/pykbroker_protocol",
    "storage/pykbroker_storage",
    "docs",
    "examples",
    "compat",
    "benchmarks",
)
WORDS: Final = tomllib.loads((HERE / "words.toml").read_text(encoding="utf-8"))
PATTERNS: Final = {
    table: re.compile(rf"\b(?:{'|'.join(words)})\b", re.IGNORECASE)
    for table, words in WORDS.items()
}


def findings(texts: Iterable[Text], table: str) -> Iterator[str]:
    for text in texts:
        for found in PATTERNS[table].finditer(text.words):
            word = found.group(0)
            yield f"{text.line}: '{word}': {advice(table, word)}\n    {text.words.strip()[:120]}"


def advice(table: str, word: str) -> str:
    return next(
        str(text)
        for pattern, text in WORDS[table].items()
        if re.fullmatch(f"(?:{pattern})", word, re.IGNORECASE)
    )


def findings_in(path: Path) -> list[str]:
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return list(findings(prose_of_markdown(source), "words"))
    return [
        *findings(prose_of_python(source), "words"),
        *findings(docstring_starts(source), "docstring_starts"),
        *findings(names_of_python(source), "identifiers"),
    ]


def files_by_room() -> dict[str, list[Path]]:
    """Product code and documents by folder."""
    rooms = {".": sorted(ROOT.glob("*.md"))}
    for source in SOURCES:
        for path in sorted((ROOT / source).rglob("*")):
            if path.suffix in {".py", ".md"}:
                rooms.setdefault(str(path.parent.relative_to(ROOT)), []).append(path)
    return rooms


ROOMS: Final = files_by_room()


@pytest.mark.parametrize("room", ROOMS)
def test_texts_avoid_the_listed_words(room: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{finding}"
        for path in ROOMS[room]
        for finding in findings_in(path)
    ]
    assert not found, "\n".join(["", *found])


@pytest.mark.parametrize(
    "words", ["the client is told", "Nobody reads this", "where it lies", "who waits"]
)
def test_a_listed_word_is_found_in_prose(words: str) -> None:
    assert list(findings([Text(1, words)], "words"))


def test_code_in_backticks_and_in_code_blocks_is_not_prose() -> None:
    document = "Use `file.tell()`.\n\n```python\nfile.tell()\n```\n"
    assert list(findings(prose_of_markdown(document), "words")) == []
    assert list(findings(prose_of_python("file.tell()  # `file.tell()` returns"), "words")) == []


def test_words_of_a_defined_name_are_found() -> None:
    source = "def wake_waiters(): ...\nclass WhoWaits: ...\n"
    assert len(list(findings(names_of_python(source), "identifiers"))) == 2


def commands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from commands(command)


def test_help_avoids_the_listed_words() -> None:
    found = [
        f"{command.prog}: {finding}"
        for command in commands(build_parser())
        for finding in findings(
            [Text(n, line) for n, line in enumerate(command.format_help().splitlines(), 1)], "words"
        )
    ]
    assert not found, "\n".join(["", *found])
