"""Finds in any answer what was refused, and where: by the names that Kafka's messages share."""

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


class Place(NamedTuple):
    """What one kind of message has to say about errors."""

    codes: tuple[str, ...]
    names: tuple[str, ...]
    numbers: tuple[str, ...]
    inside: tuple[tuple[str, bool], ...]
    """Fields that hold such messages, and whether they hold many."""
    ids: tuple[str, ...]
    """Fields with the id of a topic, which some versions tell in place of its name."""


def nameless(_: bytes) -> str | None:
    return None


def errors_in(
    message: Message, about: str = "", topic_name: Callable[[bytes], str | None] = nameless
) -> Iterator[str]:
    """`trucks-3 NOT_LEADER_OR_FOLLOWER` for each error code that is not 0."""
    place = place_of(type(message))
    for name in place.names:
        about = f"{about} {text_of(getattr(message, name))}".lstrip()
    for name in place.ids:
        about = about or topic_name(getattr(message, name)) or ""
    for name in place.numbers:
        about = f"{about}-{getattr(message, name)}"
    for name in place.codes:
        code = getattr(message, name)
        if code:
            yield f"{about} {BY_NUMBER[code].name if code in BY_NUMBER else code}".strip()
    for name, is_array in place.inside:
        held = getattr(message, name)
        for inner in held or () if is_array else (held,):
            if inner is not None:
                yield from errors_in(inner, about, topic_name)


@cache
def place_of(message: type[Message]) -> Place:
    fields = {field.name: field for field in message.fields}
    inside = [
        (name, field.is_array)
        for name, field in fields.items()
        if field.struct is not None and tells_errors(field.struct)
    ]
    return Place(
        codes=tuple(name for name in fields if name in ERROR_CODES),
        names=tuple(name for name in NAMING if name in fields),
        numbers=tuple(name for name in NUMBERING if name in fields),
        inside=tuple(inside),
        ids=tuple(name for name in fields if name == "topic_id"),
    )


def tells_errors(message: type[Message]) -> bool:
    place = place_of(message)
    return bool(place.codes or place.inside)


def text_of(value: Any) -> str:
    return value if isinstance(value, str) else ""
