"""Generates Python source: the parts shared by `reader_source` and `writer_source`."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from pykbroker_protocol.varint import read_uvarint, uvarint

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pykbroker_protocol.message import Field, Message

SLICE_ELEMENTS = 512
"""Elements of a large message that are read or written before the event loop runs other tasks.

Reading, serving and writing one element takes up to 20 us, so a slice takes a few milliseconds.
"""


class MalformedMessage(Exception):
    """The bytes are not a valid message of the expected type and version."""


class TooManyElements(MalformedMessage):
    """The arrays of a message contain more elements than the caller allows."""


class UnsupportedField(Exception):
    """A field that is not ignorable has a value, and the version does not contain the field."""


class Source:
    """The lines of a generated function and the names that they refer to."""

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
        """Called at the start of the function; `Sliced` adds the slice counter."""

    def count_element(self) -> None:
        """Called in each loop over elements; `Sliced` adds the yield between slices."""

    def add(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def new_name(self, stem: str) -> str:
        self.counter += 1
        return f"{stem}{self.counter}"

    def bind(self, stem: str, value: Any) -> str:
        name = self.new_name(stem)
        self.names[name] = value
        return name

    def is_compact(self, field: Field) -> bool:
        return self.flexible and not field.never_compact

    def null_mark(self, field: Field) -> int:
        """Returns the byte that encodes a null struct; in a tagged field Kafka uses another one."""
        return 0 if self.version in field.tagged else 0xFF

    def may_be_null(self, field: Field) -> bool:
        return self.version in field.nullable

    def runs(self, fields: Iterable[Field]) -> Iterator[list[Field]]:
        """Yields groups of fields: adjacent fixed-size fields together, other fields alone."""
        run: list[Field] = []
        for field in fields:
            if not field.is_untagged_in(self.version):
                continue
            if is_fixed_size(field):
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
    """Generates a generator function that yields after each `SLICE_ELEMENTS` elements."""

    def begin_slices(self) -> None:
        self.add(f"slice_left = {SLICE_ELEMENTS}")
        self.add("if False: yield")  # makes it a generator even if the message has no arrays

    def count_element(self) -> None:
        self.add("slice_left -= 1")
        self.add("if slice_left < 0:")
        self.add(f"    slice_left = {SLICE_ELEMENTS}; yield")


def is_fixed_size(field: Field) -> bool:
    return field.kind is not None and field.kind.letter != "" and not field.is_array
