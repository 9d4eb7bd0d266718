"""Python source under construction: what the reader's and the writer's source share."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from pykbroker_protocol.varint import read_uvarint, uvarint

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pykbroker_protocol.message import Field, Message

SLICE_ELEMENTS = 512
"""Elements of a large message that are read or written before other work gets its turn.

Reading, serving and writing an element takes up to 20 us: a slice lasts a few milliseconds.
"""


class MalformedMessage(Exception):
    """The bytes are not a message of the kind and version they claim to be."""


class TooManyElements(MalformedMessage):
    """The arrays of a message hold more elements than the caller allows; the text names a field."""


class UnsupportedField(Exception):
    """A field that the peer's version cannot carry, and must not lose, holds a value."""


class Source:
    """Lines of Python under construction, and the names they refer to."""

    def __init__(self, message: type[Message], version: int) -> None:
        self.message = message
        self.version = version
        self.flexible = version in message.flexible
        self.lines: list[str] = []
        self.depth = 0
        self.counter = 0
        self.names: dict[str, Any] = {
            "MalformedMessage": MalformedMessage,
            "UnsupportedField": UnsupportedField,
            "read_uvarint": read_uvarint,
            "uvarint": uvarint,
            "unpack_many": struct.unpack_from,
            "pack_many": struct.pack,
        }

    def text(self) -> str:
        raise NotImplementedError

    def begin_slices(self) -> None:
        """At the start of the function: nothing, unless the source is sliced."""

    def count_element(self) -> None:
        """In each pass of a loop over elements: nothing, unless the source is sliced."""

    def add(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def fresh(self, stem: str) -> str:
        self.counter += 1
        return f"{stem}{self.counter}"

    def named(self, stem: str, value: Any) -> str:
        name = self.fresh(stem)
        self.names[name] = value
        return name

    def is_compact(self, field: Field) -> bool:
        return self.flexible and not field.never_compact

    def null_mark(self, field: Field) -> int:
        """The byte that stands for a null struct; Kafka has another one among the tags."""
        return 0 if self.version in field.tagged else 0xFF

    def may_be_null(self, field: Field) -> bool:
        return self.version in field.nullable

    def runs(self, fields: Iterable[Field]) -> Iterator[list[Field]]:
        """Neighbouring fields of fixed size go together, every other field alone."""
        run: list[Field] = []
        for field in fields:
            if not field.travels_plain_in(self.version):
                continue
            if is_fixed(field):
                run.append(field)
                continue
            if run:
                yield run
                run = []
            yield [field]
        if run:
            yield run

    def tagged(self, fields: Iterable[Field]) -> list[Field]:
        found = [it for it in fields if self.version in it.tagged and self.version in it.versions]
        return sorted(found, key=lambda it: it.tag or 0)


class Sliced(Source):
    """Makes the function a generator that yields after each `SLICE_ELEMENTS` elements."""

    def begin_slices(self) -> None:
        self.add(f"slice_left = {SLICE_ELEMENTS}")
        self.add("if False: yield")  # a generator, even if the message has no arrays

    def count_element(self) -> None:
        self.add("slice_left -= 1")
        self.add("if slice_left < 0:")
        self.add(f"    slice_left = {SLICE_ELEMENTS}; yield")


def is_fixed(field: Field) -> bool:
    return field.kind is not None and field.kind.letter != "" and not field.is_array
