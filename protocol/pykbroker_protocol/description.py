"""A message's declaration as a `construct` description, which knows where each byte belongs.

It shares the declarations with the fast codec and nothing else, takes its time, and remembers the
path and the position of all it reads.
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


class Misfit(Exception):
    """Bytes that do not fit the description: where, what should be there, what is."""

    def __init__(self, path: str, position: int, expected: str, found: str) -> None:
        super().__init__(f"{path} at byte {position}: expected {expected}, found {found}")
        self.path = path
        self.position = position
        self.expected = expected
        self.found = found


class EnoughSeen(Exception):
    """The walk has seen as many fields as it was sent to see."""


class Seen(NamedTuple):
    position: int
    path: str
    value: Any


class Walk:
    """A stream over a frame that remembers what it has passed, and where in the message it is."""

    def __init__(self, frame: Buffer, position: int = 0, *, fields_max: int) -> None:
        self.frame = memoryview(frame)
        self.position = position
        self.seen: list[Seen] = []
        self.fields_left = fields_max
        self.elements_left = ELEMENTS_MAX
        self._path = ""

    @contextmanager
    def at(self, step: str) -> Iterator[None]:
        """Go down one step; a failure leaves the walk where it failed."""
        above = self._path
        self._path = f"{above}.{step}" if above and not step.startswith("[") else above + step
        yield
        self._path = above

    def see(self, position: int, value: Any) -> None:
        self.seen.append(Seen(position, self._path, value))

    def count_field(self) -> None:
        self.fields_left -= 1
        if self.fields_left < 0:
            raise EnoughSeen

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
            self.refuse(self.position, expected, f"{self.left} to the end of the frame")

    def refuse(self, position: int, expected: str, found: str) -> NoReturn:
        raise Misfit(self._path, position, expected, found) from None


class Part(construct.Construct):  # type: ignore[misc]  # construct carries no types
    """A construct whose stream is a `Walk`; it reads and does not build."""


def parse(part: Any, stream: Walk, context: Any, path: str) -> Any:
    return part._parsereport(stream, context, path)  # noqa: SLF001  # how constructs call each other


@cache
def description_of(message: type[Message], version: int) -> Part:
    """The description of a message in one version; parse it with `Walk` as the stream."""
    assert version in message.versions, f"{message.__name__} has no version {version}"
    return Structure(message, version, flexible=version in message.flexible)


def walk_through(message: type[Message], version: int, walk: Walk) -> construct.Container:
    """Read one message at the walk's position; values by name, `unknown_tags` among them."""
    return description_of(message, version).parse_stream(walk)


class Structure(Part):
    """The fields of a message or struct in their order, then, in flexible versions, the tags."""

    def __init__(self, of: type[Message], version: int, *, flexible: bool) -> None:
        super().__init__()
        self.defaults = of.defaults
        plain = [it for it in of.fields if it.travels_plain_in(version)]
        tagged = [it for it in of.fields if version in it.versions and version in it.tagged]
        self.fields = construct.Struct(
            *(it.name / Place(it, version, flexible=flexible) for it in plain)
        )
        self.tags = Tags(
            {it.tag: Place(it, version, flexible=flexible) for it in tagged if it.tag is not None}
        )
        self.flexible = flexible

    def _parse(self, stream: Walk, context: Any, path: str) -> Any:
        values = construct.Container(self.defaults)
        values.update(parse(self.fields, stream, context, path))
        values.pop("_io")  # construct keeps its stream there
        values.unknown_tags = ()
        if self.flexible:
            values.update(parse(self.tags, stream, context, path))
        return values


class Tags(Part):
    """Tagged fields: each with its number and its size, so that nobody has to know them all."""

    def __init__(self, known: dict[int, Place]) -> None:
        super().__init__()
        self.known = known

    def _parse(self, stream: Walk, context: Any, path: str) -> Any:
        start = stream.position
        count = read_uvarint(stream, "the number of tagged fields")
        if count > TAGS_MAX:
            stream.refuse(start, f"at most {TAGS_MAX} tagged fields", str(count))
        values, unknown = construct.Container(), []
        for _ in range(count):
            start = stream.position
            tag = read_uvarint(stream, "a tag")
            size = read_uvarint(stream, "the size of a tagged field")
            stream.require(size, f"{size} bytes of tag {tag}")
            if tag in self.known:
                place = self.known[tag]
                values[place.field.name] = self.read_known(place, size, stream, context, path)
            else:
                unknown.append((tag, self.read_unknown(tag, size, start, stream)))
        values.unknown_tags = tuple(unknown)
        return values

    def read_known(self, place: Place, size: int, stream: Walk, context: Any, path: str) -> Any:
        start = stream.position
        value = parse(place, stream, context, path)
        if stream.position != start + size:
            with stream.at(place.field.name):
                found = f"{stream.position - start} bytes"
                stream.refuse(start, f"a tagged field of {size} bytes", found)
        return value

    def read_unknown(self, tag: int, size: int, start: int, stream: Walk) -> memoryview:
        with stream.at(f"tag {tag}"):
            stream.count_field()
            value = stream.slice(size)
            stream.see(start, value)
            return value


class Place(Part):
    """A field where it stands: it tells the walk its name."""

    def __init__(self, field: Field, version: int, *, flexible: bool) -> None:
        super().__init__()
        self.field = field
        self.content = content_of(field, version, flexible=flexible)

    def _parse(self, stream: Walk, context: Any, path: str) -> Any:
        start = stream.position
        with stream.at(self.field.name):
            stream.count_field()
            value = parse(self.content, stream, context, path)
            if self.field.struct is None:
                stream.see(start, value)
            return value


def content_of(field: Field, version: int, *, flexible: bool) -> Part:
    compact = flexible and not field.never_compact
    nullable = version in field.nullable
    if field.struct is not None:
        element: Part = Structure(field.struct, version, flexible=flexible)
        if not field.is_array:
            return OptionalStructure(element, field, version) if nullable else element
    else:
        assert field.kind is not None
        may_be_null = nullable and not field.is_array
        element = primitive(field.kind, compact=compact, nullable=may_be_null)
    if field.is_array:
        length = Length(compact=compact, nullable=nullable, stock=construct.Int32sb)
        return Elements(element, length, are_structs=field.struct is not None)
    return element


def primitive(kind: Kind, *, compact: bool, nullable: bool) -> Part:
    if kind.name in STOCK:
        return Fixed(kind)
    stock = construct.Int16sb if kind is STRING else construct.Int32sb
    return Sized(kind, Length(compact=compact, nullable=nullable, stock=stock))


STOCK = {
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


class Fixed(Part):
    def __init__(self, kind: Kind) -> None:
        super().__init__()
        self.stock = STOCK[kind.name]
        self.size = self.stock.sizeof()
        self.expected = f"{kind.name} in {self.size} byte{'s' * (self.size > 1)}"

    def _parse(self, stream: Walk, context: Any, path: str) -> Any:
        stream.require(self.size, self.expected)
        return parse(self.stock, stream, context, path)


class Length(Part):
    """How many bytes or elements follow; None stands for null."""

    def __init__(self, *, compact: bool, nullable: bool, stock: Any) -> None:
        super().__init__()
        self.compact = compact
        self.nullable = nullable
        self.stock = stock

    def _parse(self, stream: Walk, context: Any, path: str) -> int | None:
        start = stream.position
        if self.compact:
            length = read_uvarint(stream, "a length") - 1
        else:
            stream.require(self.stock.sizeof(), f"a length in {self.stock.sizeof()} bytes")
            length = parse(self.stock, stream, context, path)
        if length == -1 and self.nullable:
            return None
        if length < 0:
            expected = "a length or null (-1)" if self.nullable else "a length, never null"
            stream.refuse(start, expected, "null" if length == -1 else str(length))
        return length


class Sized(Part):
    """A string, bytes or records behind their length."""

    def __init__(self, kind: Kind, length: Length) -> None:
        super().__init__()
        self.kind = kind
        self.length = length

    def _parse(self, stream: Walk, context: Any, path: str) -> str | memoryview | None:
        start = stream.position
        size = parse(self.length, stream, context, path)
        if size is None:
            return None
        if self.kind is STRING and size > STRING_BYTES_MAX:
            stream.refuse(start, f"a string of at most {STRING_BYTES_MAX} bytes", str(size))
        stream.require(size, f"{size} bytes of {self.kind.name}")
        return read_text(stream, size) if self.kind is STRING else stream.slice(size)


class Elements(Part):
    def __init__(self, element: Part, length: Length, *, are_structs: bool) -> None:
        super().__init__()
        self.element = element
        self.length = length
        self.are_structs = are_structs

    def _parse(self, stream: Walk, context: Any, path: str) -> list[Any] | None:
        start = stream.position
        count = parse(self.length, stream, context, path)
        if self.are_structs:
            stream.see(start, None if count is None else Counted(count))
        if count is None:
            return None
        stream.elements_left -= count
        if count > stream.left or stream.elements_left < 0:
            stream.refuse(start, f"room for {count} elements", f"{stream.left} bytes")
        return [self.read_element(index, stream, context, path) for index in range(count)]

    def read_element(self, index: int, stream: Walk, context: Any, path: str) -> Any:
        with stream.at(f"[{index}]"):
            stream.count_field()
            return parse(self.element, stream, context, path)


class Counted(int):
    """The number of structs in an array; the structs follow with lines of their own."""


class OptionalStructure(Part):
    """A struct behind a byte that says whether it is there; null is 0 among the tags, else -1."""

    def __init__(self, structure: Part, field: Field, version: int) -> None:
        super().__init__()
        self.structure = structure
        self.null = 0 if version in field.tagged else -1

    def _parse(self, stream: Walk, context: Any, path: str) -> Any:
        stream.require(1, "a byte that says whether the struct is there")
        mark = parse(construct.Int8sb, stream, context, path)
        if mark == self.null:
            stream.see(stream.position - 1, None)
            return None
        if mark != 1:
            expected = f"1 (the struct is there) or {self.null} (null)"
            stream.refuse(stream.position - 1, expected, str(mark))
        return parse(self.structure, stream, context, path)


def read_uvarint(stream: Walk, expected: str) -> int:
    start, value, shift, byte = stream.position, 0, 0, 0x80
    while byte & 0x80:
        if shift == 7 * UVARINT_BYTES_MAX:
            found = f"{UVARINT_BYTES_MAX} bytes that all ask for one more"
            stream.refuse(start, expected, found)
        stream.require(1, expected)
        (byte,) = stream.read(1)
        value += (byte & 0x7F) << shift
        shift += 7
    return value


def read_text(stream: Walk, size: int) -> str:
    start = stream.position
    content = stream.read(size)
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        byte = content[error.start]
        stream.refuse(start + error.start, "text in UTF-8", f"the byte 0x{byte:02x}")
