"""Reads a declaration from a TOML file or from Python values."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, fields
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints

from pykbroker.pipeline.declaration.checks import check
from pykbroker.pipeline.declaration.keys import STEP, Key, type_words
from pykbroker.pipeline.declaration.problems import (
    DeclarationRefused,
    Problem,
    Problems,
    below,
    suggestion,
)
from pykbroker.pipeline.declaration.values import SECTIONS, Pipeline

if TYPE_CHECKING:
    from pathlib import Path


def read_pipeline(file: Path) -> Pipeline:
    """Returns the pipeline of a TOML file; raises `DeclarationRefused`."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as failure:
        reason = getattr(failure, "strerror", None) or str(failure)
        raise DeclarationRefused([Problem(path=str(file), message=reason)]) from failure
    return read_text(text)


def read_text(text: str) -> Pipeline:
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as failure:
        raise DeclarationRefused(
            [Problem(path="", message=f"invalid TOML: {failure}")]
        ) from failure
    return declare(document)


def declare(document: Mapping[str, Any]) -> Pipeline:
    """Returns the pipeline of these tables; raises `DeclarationRefused`."""
    problems = Problems()
    own = {name: value for name, value in document.items() if name not in SECTIONS}
    settings = read_keys(Pipeline, own, "", problems)
    sections: dict[str, Any] = {
        name: read_section(name, document.get(name, {}), problems)
        for name in SECTIONS
        if name in document or name == "source"
    }
    problems.raise_if_any()
    pipeline = Pipeline(**settings, **sections)
    check(pipeline, problems)
    problems.raise_if_any()
    return pipeline


def read_section(name: str, tables: object, problems: Problems) -> dict[str, Any]:
    """Reads a section such as `[source.NAME]`."""
    if not isinstance(tables, Mapping):
        problems.add(name, f"should hold tables as [{name}.NAME], not {type_words(tables)}")
        return {}
    read = {}
    for step, table in tables.items():
        path = below(name, step)
        if not STEP.fullmatch(step):
            problems.add(path, "a name consists of lower-case letters, digits and underscores")
        if not isinstance(table, Mapping):
            problems.add(path, f"should be a table as [{name}.NAME], not {type_words(table)}")
            continue
        kind = SECTIONS[name]
        found_before = len(problems.found)
        values = read_keys(kind, table, path, problems)
        if len(problems.found) == found_before:
            read[step] = kind(**values)
    return read


def read_keys(
    kind: type, table: Mapping[str, Any], path: str, problems: Problems
) -> dict[str, Any]:
    """Returns the converted values of the keys of a table."""
    keys = keys_of(kind)
    for name in table:
        if name not in keys:
            known = (*keys, *SECTIONS) if kind is Pipeline else tuple(keys)
            problems.add(below(path, name), f"unknown key{suggestion(name, known)}")
    for name in sorted(required_keys(kind) - table.keys()):
        problems.add(below(path, name), f"is missing: {keys[name].meaning}")
    return {
        name: key.kind.read(table[name], below(path, name), problems)
        for name, key in keys.items()
        if name in table
    }


@cache
def keys_of(kind: type) -> Mapping[str, Key]:
    """Returns the keys of a part of the declaration, in the order of its fields."""
    hints = get_type_hints(kind, include_extras=True)
    return {
        name: next(it for it in get_args(hint) if isinstance(it, Key))
        for name, hint in hints.items()
        if get_origin(hint) is Annotated
    }


def required_keys(kind: type) -> set[str]:
    required = {
        it.name for it in fields(kind) if it.default is MISSING and it.default_factory is MISSING
    }
    return required & keys_of(kind).keys()
