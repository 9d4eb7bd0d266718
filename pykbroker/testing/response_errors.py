"""Finds the error codes in any response, with the topic, partition or group they belong to."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from pykbroker_protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pykbroker_protocol.message import Message

NAMING = ("name", "topic", "topic_name", "group_id", "key", "member_id", "transactional_id")
ERROR_CODES = ("error_code", "partition_error_code")
NUMBERING = ("index", "partition_index", "partition")
BY_NUMBER = {code.value: code for code in ErrorCode}


class ErrorFields(NamedTuple):
    """The fields of a message type that hold error codes, or name what a code belongs to."""

    codes: tuple[str, ...]
    names: tuple[str, ...]
    numbers: tuple[str, ...]
    inside: tuple[tuple[str, bool], ...]
    """Fields that hold messages with error codes, and whether the field is an array."""
    ids: tuple[str, ...]
    """Fields with a topic id, which some versions send instead of the name."""


def no_name(_: bytes) -> str | None:
    return None


def errors_in(
    message: Message, about: str = "", topic_name: Callable[[bytes], str | None] = no_name
) -> Iterator[str]:
    """Yields `trucks-3 NOT_LEADER_OR_FOLLOWER` for each error code that is not 0."""
    fields = error_fields_of(type(message))
    for name in fields.names:
        about = f"{about} {text_of(getattr(message, name))}".lstrip()
    for name in fields.ids:
        about = about or topic_name(getattr(message, name)) or ""
    for name in fields.numbers:
        about = f"{about}-{getattr(message, name)}"
    for name in fields.codes:
        code = getattr(message, name)
        if code:
            yield f"{about} {BY_NUMBER[code].name if code in BY_NUMBER else code}".strip()
    for name, is_array in fields.inside:
        held = getattr(message, name)
        for inner in held or () if is_array else (held,):
            if inner is not None:
                yield from errors_in(inner, about, topic_name)


@cache
def error_fields_of(message: type[Message]) -> ErrorFields:
    fields = {field.name: field for field in message.fields}
    inside = [
        (name, field.is_array)
        for name, field in fields.items()
        if field.struct is not None and has_error_codes(field.struct)
    ]
    return ErrorFields(
        codes=tuple(name for name in fields if name in ERROR_CODES),
        names=tuple(name for name in NAMING if name in fields),
        numbers=tuple(name for name in NUMBERING if name in fields),
        inside=tuple(inside),
        ids=tuple(name for name in fields if name == "topic_id"),
    )


def has_error_codes(message: type[Message]) -> bool:
    fields = error_fields_of(message)
    return bool(fields.codes or fields.inside)


def text_of(value: Any) -> str:
    return value if isinstance(value, str) else ""
