"""Kinds of values of a key. Each kind converts a TOML value or reports the expected type."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pykbroker.pipeline.declaration.column_types import NAME, is_column_type
from pykbroker.pipeline.declaration.durations import EXAMPLE, Duration
from pykbroker.pipeline.declaration.problems import Problems, below, listed

if TYPE_CHECKING:
    from enum import Enum

TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
STEP: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")
ADDRESS: Final = re.compile(r"(?:\[[0-9a-fA-F:.]+\]|[^\s,:\[\]]+):\d{1,5}")

Read = Callable[[Any, str, Problems], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """`words` names the kind; `read` returns the converted value or adds a problem."""

    words: str
    read: Read


@dataclass(frozen=True, slots=True)
class Key:
    """Annotation of a field: its kind and its meaning, for documents and errors."""

    kind: Kind
    meaning: str


def of_text(words: str, is_right: Callable[[str], bool]) -> Kind:
    def read(value: Any, path: str, problems: Problems) -> Any:
        if not isinstance(value, str):
            problems.add(path, f"should be {words}, not {type_words(value)}")
        elif not is_right(value):
            problems.add(path, f"{value!r} is not {words}")
        return value

    return Kind(words=words, read=read)


def is_topic(text: str) -> bool:
    return TOPIC.fullmatch(text) is not None and text not in {".", ".."}


def is_pattern(text: str) -> bool:
    try:
        re.compile(text)
    except re.error:
        return False
    return bool(text)


def is_addresses(text: str) -> bool:
    return all(ADDRESS.fullmatch(address.strip()) for address in text.split(","))


def is_json_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def is_not_blank(text: str) -> bool:
    return bool(text.strip())


TEXT: Final = of_text("a string", is_not_blank)
SQL: Final = of_text("an SQL expression", is_not_blank)
QUERY: Final = of_text("an SQL query", is_not_blank)
PATH: Final = of_text("a path", is_not_blank)
TOPIC_NAME: Final = of_text("a topic", is_topic)
PATTERN: Final = of_text("a regular expression", is_pattern)
STEP_NAME: Final = of_text("the name of a step", lambda text: STEP.fullmatch(text) is not None)
PIPELINE_NAME: Final = of_text(
    "a name of lower-case letters, digits and underscores",
    lambda text: STEP.fullmatch(text) is not None,
)
COLUMN: Final = of_text("the name of a column", lambda text: NAME.fullmatch(text) is not None)
ADDRESSES: Final = of_text("HOST:PORT or a comma-separated list of them", is_addresses)
AVRO: Final = of_text("an Avro schema in JSON", is_json_object)


def read_duration(value: Any, path: str, problems: Problems) -> Any:
    duration = Duration.parse(value) if isinstance(value, str) else None
    if duration is None:
        problems.add(path, f"should be a duration such as {EXAMPLE!r}, not {value!r}")
    return duration


def read_some_duration(value: Any, path: str, problems: Problems) -> Any:
    duration = read_duration(value, path, problems)
    if duration == Duration(0):
        problems.add(path, "should be longer than zero")
    return duration


DURATION: Final = Kind(words="a duration", read=read_duration)
SOME_TIME: Final = Kind(words="a duration above zero", read=read_some_duration)


def read_flag(value: Any, path: str, problems: Problems) -> Any:
    if not isinstance(value, bool):
        problems.add(path, f"should be true or false, not {type_words(value)}")
    return value


def read_count(value: Any, path: str, problems: Problems) -> Any:
    if not isinstance(value, int) or isinstance(value, bool):
        problems.add(path, f"should be an integer, not {type_words(value)}")
    elif value < 1:
        problems.add(path, f"should be at least 1, not {value}")
    return value


FLAG: Final = Kind(words="true or false", read=read_flag)
COUNT: Final = Kind(words="an integer", read=read_count)


def one_of(choices: type[Enum]) -> Kind:
    names = [str(choice.value) for choice in choices]

    def read(value: Any, path: str, problems: Problems) -> Any:
        if isinstance(value, str) and value in names:
            return choices(value)
        problems.add(path, f"should be {listed(names)}, not {value!r}")
        return value

    return Kind(words=listed(f"`{name}`" for name in names), read=read)


def list_of(kind: Kind, plural: str) -> Kind:
    def read(value: Any, path: str, problems: Problems) -> Any:
        if not isinstance(value, list | tuple):
            problems.add(path, f"should be a list of {plural}, not {type_words(value)}")
            return ()
        items = tuple(
            kind.read(item, f"{path}[{index}]", problems) for index, item in enumerate(value)
        )
        if not items:
            problems.add(path, f"should name at least one of {plural}")
        for item in {it for it in items if isinstance(it, str) and items.count(it) > 1}:
            problems.add(path, f"names {item} twice")
        return items

    return Kind(words=f"a list of {plural}", read=read)


def table_of(kind: Kind, words: str, *, names: Kind | None = None) -> Kind:
    def read(value: Any, path: str, problems: Problems) -> Any:
        if not isinstance(value, Mapping):
            problems.add(path, f"should be a table of {words}, not {type_words(value)}")
            return {}
        for name in value:
            if names is not None:
                names.read(name, below(path, str(name)), problems)
        return {
            name: kind.read(item, below(path, str(name)), problems) for name, item in value.items()
        }

    return Kind(words=f"a table of {words}", read=read)


def read_setting(value: Any, path: str, problems: Problems) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    problems.add(path, f"should be a string, a number, true or false, not {type_words(value)}")
    return value


SETTINGS: Final = table_of(Kind(words="a setting", read=read_setting), "settings")
COLUMN_TYPE: Final = of_text("a type of a column", is_column_type)
SCHEMA: Final = table_of(COLUMN_TYPE, "columns and their types", names=COLUMN)
MEASURES: Final = table_of(SQL, "columns and their SQL expressions", names=COLUMN)
HEADERS: Final = table_of(SQL, "headers and their SQL expressions")
TOPICS: Final = list_of(TOPIC_NAME, "topics")
COLUMNS: Final = list_of(COLUMN, "columns")
STEPS: Final = list_of(STEP_NAME, "steps")


def type_words(value: Any) -> str:
    """Returns the TOML type of the value."""
    match value:
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case Mapping():
            return "a table"
        case list() | tuple():
            return "a list"
        case _:
            return f"a {type(value).__name__}"
