"""Parses messages with `construct` and records path, position and value of each field.

It shares only the declarations with the fast codec, so that tests compare two implementations. It
is slow; `explain` uses it for malformed frames and for tools.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import construct

from pykbroker_protocol.message import (
    BOOLEAN,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    UINT16,
    UINT32,
    UUID,
)
from pykbroker_protocol.reader_source import ELEMENTS_MAX, STRING_BYTES_MAX
from pykbroker_protocol.varint import TAGS_MAX, UVARINT_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pykbroker_protocol.compiler import Buffer
    from pykbroker_protocol.message import Field, Kind, Message


class Mismatch(Exception):
    """The bytes do not match the declaration: position, expected and found content."""

    def __init__(self, path: str, position: int, expected: str, found: str) -> None:
        super().__init__(f"{path} at byte {position}: expected {expected}, found {found}")
        self.path = path
        self.position = position
        self.expected = expected
        self.found = found


class FieldLimitReached(Exception):
    """The stream has parsed `fields_max` fields."""


class TracedField(NamedTuple):
    position: int
    path: str
    value: Any


class TracingStream:
    """A stream over a frame that records the parsed fields and the path of the current field."""

    def __init__(self, frame: Buffer, position: int = 0, *, fields_max: int) -> None:
        self.frame = memoryview(frame)
        self.position = position
        self.fields: list[TracedField] = []
        self.fields_left = fields_max
        self.elements_left = ELEMENTS_MAX
        self._path = ""

    @contextmanager
    def at(self, step: str) -> Iterator[None]:
        """Extends the path within the block; an exception leaves the path unchanged."""
        above = self._path
        self._path = f"{above}.{step}" if above and not step.startswith("[") else above + step
        yield
        self._path = above

    def record(self, position: int, value: Any) -> None:
        self.fields.append(TracedField(position, self._path, value))

    def count_field(self) -> None:
        self.fields_left -= 1
        if self.fields_left < 0:
            raise FieldLimitReached

    @property
    def left(self) -> int:
        return len(self.frame) - self.position

    def tell(self) -> int:
        return self.position

    def read(self, size: int) -> bytes:
        return bytes(self.slice(size))

    def slice(self, size: int) -> memoryview:
        start, self.position = self.position, self.position + size
        return self.frame[start : self.position]

    def require(self, size: int, expected: str) -> None:
        if size > self.left:
            self.fail(self.position, expected, f"{self.left} to the end of the frame")

    def fail(self, position: int, expected: str, found: str) -> NoReturn:
        raise Mismatch(self._path, position, expected, found) from None


class Part(construct.Construct):  # type: ignore[misc]  # construct carries no types
    """A construct that parses a `TracingStream`; it does not support building."""


def parse(part: Any, stream: TracingStream, context: Any, path: str) -> Any:
    return part._parsereport(stream, context, path)  # noqa: SLF001  # how constructs call each other


@cache
def parser_of(message: type[Message], version: int) -> Part:
    """Returns the parser of a message in one version; its stream is a `TracingStream`."""
    assert version in message.versions, f"{message.__name__} has no version {version}"
    return Structure(message, version, flexible=version in message.flexible)


def parse_message(
    message: type[Message], version: int, stream: TracingStream
) -> construct.Container:
    """Parses one message at the stream position; returns values by name, with `unknown_tags`."""
    return parser_of(message, version).parse_stream(stream)


class Structure(Part):
    """The fields of a message or struct in order, then the tagged fields of flexible versions."""

    def __init__(self, of: type[Message], version: int, *, flexible: bool) -> None:
        super().__init__()
        self.defaults = of.defaults
        plain = [it for it in of.fields if it.is_untagged_in(version)]
        tagged = [it for it in of.fields if version in it.versions and version in it.tagged]
        self.fields = construct.Struct(
            *(it.name / NamedField(it, version, flexible=flexible) for it in plain)
        )
        self.tags = TaggedFields(
            {
                it.tag: NamedField(it, version, flexible=flexible)
                for it in tagged
                if it.tag is not None
            }
        )
        self.flexible = flexible

    def _parse(self, stream: TracingStream, context: Any, path: str) -> Any:
        values = construct.Container(self.defaults)
        values.update(parse(self.fields, stream, context, path))
        values.pop("_io")  # construct adds its stream
        values.unknown_tags = ()
        if self.flexible:
            values.update(parse(self.tags, stream, context, path))
        return values


class TaggedFields(Part):
    """Tagged fields: known ones are parsed, unknown ones are skipped by their size."""

    def __init__(self, parsers: dict[int, NamedField]) -> None:
        super().__init__()
        self.parsers = parsers

    def _parse(self, stream: TracingStream, context: Any, path: str) -> Any:
        start = stream.position
        count = read_uvarint(stream, "the number of tagged fields")
        if count > TAGS_MAX:
            stream.fail(start, f"at most {TAGS_MAX} tagged fields", str(count))
        values, unknown = construct.Container(), []
        for _ in range(count):
            start = stream.position
            tag = read_uvarint(stream, "a tag")
            size = read_uvarint(stream, "the size of a tagged field")
            stream.require(size, f"{size} bytes of tag {tag}")
            if tag in self.parsers:
                known = self.parsers[tag]
                values[known.field.name] = self.read_known(known, size, stream, context, path)
            else:
                unknown.append((tag, self.read_unknown(tag, size, start, stream)))
        values.unknown_tags = tuple(unknown)
        return values

    def read_known(
        self, known: NamedField, size: int, stream: TracingStream, context: Any, path: str
    ) -> Any:
        start = stream.position
        value = parse(known, stream, context, path)
        if stream.position != start + size:
            with stream.at(known.field.name):
                found = f"{stream.position - start} bytes"
                stream.fail(start, f"a tagged field of {size} bytes", found)
        return value

    def read_unknown(self, tag: int, size: int, start: int, stream: TracingStream) -> memoryview:
        with stream.at(f"tag {tag}"):
            stream.count_field()
            value = stream.slice(size)
            stream.record(start, value)
            return value


class NamedField(Part):
    """A field in one version; it adds its name to the path of the stream."""

    def __init__(self, field: Field, version: int, *, flexible: bool) -> None:
        super().__init__()
        self.field = field
        self.content = content_of(field, version, flexible=flexible)

    def _parse(self, stream: TracingStream, context: Any, path: str) -> Any:
        start = stream.position
        with stream.at(self.field.name):
            stream.count_field()
            value = parse(self.content, stream, context, path)
            if self.field.struct is None:
                stream.record(start, value)
            return value


def content_of(field: Field, version: int, *, flexible: bool) -> Part:
    compact = flexible and not field.never_compact
    nullable = version in field.nullable
    if field.struct is not None:
        element: Part = Structure(field.struct, version, flexible=flexible)
        if not field.is_array:
            return NullableStructure(element, field, version) if nullable else element
    else:
        assert field.kind is not None
        may_be_null = nullable and not field.is_array
        element = primitive(field.kind, compact=compact, nullable=may_be_null)
    if field.is_array:
        length = Length(compact=compact, nullable=nullable, inner=construct.Int32sb)
        return Array(element, length, are_structs=field.struct is not None)
    return element


def primitive(kind: Kind, *, compact: bool, nullable: bool) -> Part:
    if kind.name in FIXED_SIZE_PARTS:
        return FixedSize(kind)
    inner = construct.Int16sb if kind is STRING else construct.Int32sb
    return LengthPrefixed(kind, Length(compact=compact, nullable=nullable, inner=inner))


FIXED_SIZE_PARTS = {
    INT8.name: construct.Int8sb,
    INT16.name: construct.Int16sb,
    UINT16.name: construct.Int16ub,
    INT32.name: construct.Int32sb,
    UINT32.name: construct.Int32ub,
    INT64.name: construct.Int64sb,
    FLOAT64.name: construct.Float64b,
    BOOLEAN.name: construct.Flag,
    UUID.name: construct.Bytes(16),
}


class FixedSize(Part):
    def __init__(self, kind: Kind) -> None:
        super().__init__()
        self.inner = FIXED_SIZE_PARTS[kind.name]
        self.size = self.inner.sizeof()
        self.expected = f"{kind.name} in {self.size} byte{'s' * (self.size > 1)}"

    def _parse(self, stream: TracingStream, context: Any, path: str) -> Any:
        stream.require(self.size, self.expected)
        return parse(self.inner, stream, context, path)


class Length(Part):
    """The number of bytes or elements that follow; None for null."""

    def __init__(self, *, compact: bool, nullable: bool, inner: Any) -> None:
        super().__init__()
        self.compact = compact
        self.nullable = nullable
        self.inner = inner

    def _parse(self, stream: TracingStream, context: Any, path: str) -> int | None:
        start = stream.position
        if self.compact:
            length = read_uvarint(stream, "a length") - 1
        else:
            stream.require(self.inner.sizeof(), f"a length in {self.inner.sizeof()} bytes")
            length = parse(self.inner, stream, context, path)
        if length == -1 and self.nullable:
            return None
        if length < 0:
            expected = "a length or null (-1)" if self.nullable else "a length, never null"
            stream.fail(start, expected, "null" if length == -1 else str(length))
        return length


class LengthPrefixed(Part):
    """A string, bytes or records after their length."""

    def __init__(self, kind: Kind, length: Length) -> None:
        super().__init__()
        self.kind = kind
        self.length = length

    def _parse(self, stream: TracingStream, context: Any, path: str) -> str | memoryview | None:
        start = stream.position
        size = parse(self.length, stream, context, path)
        if size is None:
            return None
        if self.kind is STRING and size > STRING_BYTES_MAX:
            stream.fail(start, f"a string of at most {STRING_BYTES_MAX} bytes", str(size))
        stream.require(size, f"{size} bytes of {self.kind.name}")
        return read_text(stream, size) if self.kind is STRING else stream.slice(size)


class Array(Part):
    def __init__(self, element: Part, length: Length, *, are_structs: bool) -> None:
        super().__init__()
        self.element = element
        self.length = length
        self.are_structs = are_structs

    def _parse(self, stream: TracingStream, context: Any, path: str) -> list[Any] | None:
        start = stream.position
        count = parse(self.length, stream, context, path)
        if self.are_structs:
            stream.record(start, None if count is None else StructCount(count))
        if count is None:
            return None
        stream.elements_left -= count
        if count > stream.left or stream.elements_left < 0:
            stream.fail(start, f"{count} elements", f"{stream.left} bytes")
        return [self.read_element(index, stream, context, path) for index in range(count)]

    def read_element(self, index: int, stream: TracingStream, context: Any, path: str) -> Any:
        with stream.at(f"[{index}]"):
            stream.count_field()
            return parse(self.element, stream, context, path)


class StructCount(int):
    """The number of structs in an array; each struct is recorded by its own fields."""


class NullableStructure(Part):
    """A nullable struct: a byte (1, or null: -1, in a tagged field 0), then the struct."""

    def __init__(self, structure: Part, field: Field, version: int) -> None:
        super().__init__()
        self.structure = structure
        self.null = 0 if version in field.tagged else -1

    def _parse(self, stream: TracingStream, context: Any, path: str) -> Any:
        stream.require(1, "the null mark of a struct")
        mark = parse(construct.Int8sb, stream, context, path)
        if mark == self.null:
            stream.record(stream.position - 1, None)
            return None
        if mark != 1:
            expected = f"1 (not null) or {self.null} (null)"
            stream.fail(stream.position - 1, expected, str(mark))
        return parse(self.structure, stream, context, path)


def read_uvarint(stream: TracingStream, expected: str) -> int:
    start, value, shift, byte = stream.position, 0, 0, 0x80
    while byte & 0x80:
        if shift == 7 * UVARINT_BYTES_MAX:
            found = f"a varint longer than {UVARINT_BYTES_MAX} bytes"
            stream.fail(start, expected, found)
        stream.require(1, expected)
        (byte,) = stream.read(1)
        value += (byte & 0x7F) << shift
        shift += 7
    return value


def read_text(stream: TracingStream, size: int) -> str:
    start = stream.position
    content = stream.read(size)
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        byte = content[error.start]
        stream.fail(start + error.start, "text in UTF-8", f"the byte 0x{byte:02x}")
