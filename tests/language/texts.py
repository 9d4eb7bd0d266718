"""Extracts the English of a source file or a document: each piece of text with its line."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

WORD_IN_NAME: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
CODE_IN_TEXT: Final = re.compile(r"`[^`]*`")
GIVEN_NAMES = frozenset({"tell", "ForgottenTopic", "forgotten_topics_data"})
"""Names that a protocol defines: the methods of a Python file, the fields of Fetch."""


@dataclass(frozen=True, slots=True)
class Text:
    line: int
    words: str


def prose_of_python(source: str) -> Iterator[Text]:
    """Comments, docstrings and other strings with a space. Code in backticks is left out."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            comment = token.string.lstrip("#").split("# noqa")[0]
            yield Text(token.start[0], CODE_IN_TEXT.sub("", comment))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            for number, line in enumerate(node.value.splitlines()):
                yield Text(node.lineno + number, CODE_IN_TEXT.sub("", line))


def docstring_starts(source: str) -> Iterator[Text]:
    """The first word of each docstring."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            words = (ast.get_docstring(node) or "").split()
            if words:
                yield Text(node.body[0].lineno, words[0])


def names_of_python(source: str) -> Iterator[Text]:
    """Names that a file defines, split into words: functions, classes, parameters, variables."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield Text(node.lineno, words_of_name(name))
            case ast.ClassDef(name=name):
                yield Text(node.lineno, words_of_name(name))
            case ast.arg(arg=name):
                yield Text(node.lineno, words_of_name(name))
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield Text(node.lineno, words_of_name(name))


def prose_of_markdown(document: str) -> Iterator[Text]:
    """All lines outside of code blocks, without code in backticks and targets of links."""
    in_code = False
    for number, line in enumerate(document.splitlines(), 1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        elif not in_code:
            yield Text(number, re.sub(r"\]\([^)]*\)", "]", CODE_IN_TEXT.sub("", line)))


def words_of_name(name: str) -> str:
    if name in GIVEN_NAMES:
        return ""
    return " ".join(WORD_IN_NAME.findall(name)).lower()
