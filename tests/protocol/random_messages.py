"""All declared messages, and random messages of any version."""

from __future__ import annotations

import struct
from importlib import import_module
from pkgutil import walk_packages
from typing import TYPE_CHECKING, Any

import pykbroker_protocol
from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.catalog import request_of, response_of
from pykbroker_protocol.message import BOOLEAN, FLOAT64, STRING, UUID, Message

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

    from pykbroker_protocol.message import Field, Kind

TEXTS = ("", "a", "trucks", "Öl-Fässer", "位置", "x" * 126, "x" * 127, "x" * 300)
UNKNOWN_TAGS = range(1000, 1010)


def _declared() -> Iterator[type[Message]]:
    """Yields each class with versions: requests, responses, records, headers."""
    for module in walk_packages(pykbroker_protocol.__path__, "pykbroker_protocol."):
        for it in vars(import_module(module.name)).values():
            if isinstance(it, type) and issubclass(it, Message) and it.versions.last >= 0:
                yield it


DECLARED = sorted(set(_declared()), key=lambda it: it.__name__)
REQUESTS = [it for key in ApiKey if (it := request_of(key)) is not None]
RESPONSES = [it for key in ApiKey if (it := response_of(key)) is not None]


def versions_of(message: type[Message]) -> range:
    return range(message.versions.first, message.versions.last + 1)


def random_message(
    message: type[Message], version: int, random: Random, *, unknown_tags: bool = True
) -> Message:
    """Returns a random message that the version can encode."""
    return _RandomMessages(version, version in message.flexible and unknown_tags, random).struct(
        message
    )


class _RandomMessages:
    def __init__(self, version: int, unknown_tags: bool, random: Random) -> None:  # noqa: FBT001  # private
        self.version = version
        self.unknown_tags = unknown_tags
        self.random = random

    def struct(self, message: type[Message]) -> Message:
        values = {it.name: self.field(it) for it in message.fields if self.version in it.versions}
        if self.unknown_tags and self.random.random() < 0.2:
            tags = sorted(self.random.sample(UNKNOWN_TAGS, self.random.randrange(1, 4)))
            values["unknown_tags"] = tuple((tag, self.octets()) for tag in tags)
        return message(**values)

    def field(self, field: Field) -> Any:
        if self.version in field.nullable and self.random.random() < 0.25:
            return None
        if self.version in field.tagged and self.random.random() < 0.3:
            return field.default
        if not field.is_array:
            return self.one(field)
        return [self.one(field) for _ in range(self.random.choice((0, 1, 1, 2, 3)))]

    def one(self, field: Field) -> Any:
        if field.struct is not None:
            return self.struct(field.struct)
        assert field.kind is not None
        return self.primitive(field.kind)

    def primitive(self, kind: Kind) -> Any:
        if kind is BOOLEAN:
            return self.random.random() < 0.5
        if kind is FLOAT64:
            return self.random.choice((0.0, -1.5, 1e300, self.random.random()))
        if kind is STRING:
            return self.random.choice(TEXTS)
        if kind is UUID:
            return self.random.choice((bytes(16), self.random.randbytes(16)))
        if not kind.letter:
            return self.octets()
        return self.integer(kind)

    def integer(self, kind: Kind) -> int:
        layout = struct.Struct(">" + kind.letter)
        any_bits = self.random.randbytes(layout.size)
        low = b"\x80" if kind.letter.islower() else b"\0"
        extremes = (b"\x7f".ljust(layout.size, b"\xff"), low.ljust(layout.size, b"\0"))
        (value,) = layout.unpack(self.random.choice((any_bits, any_bits, *extremes)))
        return int(value)

    def octets(self) -> bytes:
        return self.random.randbytes(self.random.choice((0, 1, 5, 127, 5000)))
