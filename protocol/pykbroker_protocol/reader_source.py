"""Generates the source of a reader, which decodes one message in one version.

A reader validates each length against the available bytes before it allocates memory. All arrays
and tags of one message together contain at most `ELEMENTS_MAX` elements, or fewer if the caller
passes a lower bound. `SlicedReaderSource` is the same reader as a generator, for large messages.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from pykbroker_protocol.message import BYTES, RECORDS, STRING, UUID
from pykbroker_protocol.source import (
    MalformedMessage,
    Sliced,
    Source,
    TooManyElements,
    is_fixed_size,
)
from pykbroker_protocol.varint import TAGS_MAX

if TYPE_CHECKING:
    from pykbroker_protocol.message import Field, Kind, Message

ELEMENTS_MAX = 1_000_000
"""Without this bound a request of 100 MiB could create a hundred million Python objects."""

DECODE_ERRORS = (struct.error, IndexError, UnicodeDecodeError, MalformedMessage)

STRING_BYTES_MAX = 0x7FFF
"""The non-compact length of a string has two bytes; a longer string has no encoding there."""


class ReaderSource(Source):
    """Source of `run(buffer, p) -> (message, p)`; `p` is the position, `end` the buffer size.

    The function raises MalformedMessage for every decoding error.
    """

    def text(self) -> str:
        self.names["decode_errors"] = DECODE_ERRORS
        self.names["TooManyElements"] = TooManyElements
        self.add(f"def run(buffer, p, left={ELEMENTS_MAX}):")
        self.depth = 1
        self.add("try:")
        self.depth = 2
        self.add("end = len(buffer)")
        self.begin_slices()
        result = self.read_struct(self.message)
        self.add(f"return {result}, p")
        self.depth = 1
        title = f"{self.message.__name__} version {self.version}"
        self.add("except TooManyElements: raise")
        self.add("except decode_errors as error:")
        self.add(f'    raise MalformedMessage(f"{title}: {{error}}") from error')
        return "\n".join(self.lines)

    def read_struct(self, of: type[Message]) -> str:
        values = {field.name: self.bind("default", field.default) for field in of.fields}
        for run in self.runs(of.fields):
            if is_fixed_size(run[0]):
                self.read_fixed(run, values)
            else:
                values[run[0].name] = self.read_field(run[0])
        unknown = self.read_tags(self.tagged(of.fields), values) if self.flexible else "()"
        result = self.new_name("message")
        kind = self.bind("Class", of)
        self.names["new"] = object.__new__
        self.add(f"{result} = new({kind})")
        for name, value in values.items():
            self.add(f"{result}.{name} = {value}")
        self.add(f"{result}.unknown_tags = {unknown}")
        return result

    def read_fixed(self, run: list[Field], values: dict[str, str]) -> None:
        layout = struct.Struct(">" + "".join(field.kind.letter for field in run if field.kind))
        targets = [self.new_name("value") for _ in run]
        unpack = self.bind("unpack", layout.unpack_from)
        self.add(f"{', '.join(targets)}, = {unpack}(buffer, p)")
        self.add(f"p += {layout.size}")
        values.update((field.name, target) for field, target in zip(run, targets, strict=True))

    def read_field(self, field: Field) -> str:
        if field.is_array:
            return self.read_array(field)
        if field.struct is not None:
            return self.read_nested(field)
        assert field.kind is not None
        return self.read_sized(field.kind, field, nullable=self.may_be_null(field))

    def read_one(self, kind: Kind, field: Field) -> str:
        """Reads one primitive outside a run: an array element or a tagged field."""
        if not kind.letter:
            return self.read_sized(kind, field, nullable=False)
        value = self.new_name("value")
        layout = struct.Struct(">" + kind.letter)
        self.add(f"{value}, = {self.bind('unpack', layout.unpack_from)}(buffer, p)")
        self.add(f"p += {layout.size}")
        return value

    def read_sized(self, kind: Kind, field: Field, *, nullable: bool) -> str:
        size, value, stop = self.new_name("size"), self.new_name("value"), self.new_name("stop")
        self.read_length(
            size, compact=self.is_compact(field), letter="h" if kind is STRING else "i"
        )
        self.add(f"if {size} < 0:")
        self.read_null(field, value, size, nullable=nullable)
        self.add("else:")
        self.depth += 1
        self.add(f"{stop} = p + {size}")
        self.raise_if(f"{stop} > end", field, f"length {{{size}}}, only {{end - p}} bytes are left")
        self.add(f"{value} = {slice_expression(kind, stop)}")
        self.add(f"p = {stop}")
        self.depth -= 1
        return value

    def read_null(self, field: Field, value: str, size: str, *, nullable: bool) -> None:
        self.depth += 1
        if nullable:
            self.raise_if(f"{size} != -1", field, f"{{{size}}} is not a valid length")
            self.add(f"{value} = None")
        else:
            reason = f"{{'null' if {size} == -1 else {size}}} is not a valid length"
            self.add(f'raise MalformedMessage(f"{field.name}: {reason}")')
        self.depth -= 1

    def raise_if(self, condition: str, field: Field, reason: str) -> None:
        self.add(f"if {condition}:")
        self.add(f'    raise MalformedMessage(f"{field.name}: {reason}")')

    def read_length(self, size: str, *, compact: bool, letter: str) -> None:
        if compact:
            self.add(f"{size} = buffer[p] - 1; p += 1")
            self.add(f"if {size} > 126:")
            self.add(f"    {size}, p = read_uvarint(buffer, p - 1); {size} -= 1")
            if letter == "h":
                self.add(f"    if {size} > {STRING_BYTES_MAX}:")
                self.add(f"        raise MalformedMessage(f'string of {{{size}}} bytes')")
            return
        layout = struct.Struct(">" + letter)
        self.add(f"{size}, = {self.bind('unpack', layout.unpack_from)}(buffer, p)")
        self.add(f"p += {layout.size}")

    def read_array(self, field: Field) -> str:
        size, value = self.new_name("size"), self.new_name("items")
        self.read_length(size, compact=self.is_compact(field), letter="i")
        self.add(f"if {size} < 0:")
        self.read_null(field, value, size, nullable=self.may_be_null(field))
        self.add("else:")
        self.depth += 1
        self.add(f"left -= {size}")
        reason = f"{{{size}}} elements do not fit in {{end - p}} bytes"
        self.raise_if(f"{size} > end - p", field, reason)
        self.add(f"if left < 0: raise TooManyElements('{field.name}: too many elements')")
        self.read_elements(field, size, value)
        self.depth -= 1
        return value

    def read_elements(self, field: Field, size: str, value: str) -> None:
        kind = field.kind
        if kind is not None and kind.letter and kind is not UUID:
            self.add(f'{value} = unpack_many(f">{{{size}}}{kind.letter}", buffer, p)')
            self.add(f"p += {size} * {struct.calcsize('>' + kind.letter)}")
            return
        self.add(f"{value} = []")
        self.add(f"for _ in range({size}):")
        self.depth += 1
        self.count_element()
        element = self.read_struct(field.struct) if field.struct else self.read_one(kind, field)  # type: ignore[arg-type]  # struct or kind is set
        self.add(f"{value}.append({element})")
        self.depth -= 1

    def read_nested(self, field: Field) -> str:
        assert field.struct is not None
        if not self.may_be_null(field):
            return self.read_struct(field.struct)
        value, mark = self.new_name("nested"), self.new_name("mark")
        self.add(f"{mark} = buffer[p]; p += 1")
        self.add(f"if {mark} == 1:")
        self.depth += 1
        inner = self.read_struct(field.struct)
        self.add(f"{value} = {inner}")
        self.depth -= 1
        self.add(f"elif {mark} == {self.null_mark(field)}:")
        self.add(f"    {value} = None")
        self.add(f'else: raise MalformedMessage(f"{field.name}: invalid null mark {{{mark}}}")')
        return value

    def read_tags(self, tagged: list[Field], values: dict[str, str]) -> str:
        count, unknown = self.new_name("count"), self.new_name("unknown")
        for field in tagged:
            target = self.new_name("tagged")
            self.add(f"{target} = {values[field.name]}")
            values[field.name] = target
        self.add(f"{count} = buffer[p]; p += 1")
        self.add(f"{unknown} = ()")
        self.add(f"if {count}:")
        self.depth += 1
        self.add(f"if {count} > 127: {count}, p = read_uvarint(buffer, p - 1)")
        self.add(f"left -= {count}")
        self.add(f"if {count} > {TAGS_MAX}:")
        self.add(f"    raise MalformedMessage(f'{{{count}}} tagged fields')")
        self.add("if left < 0: raise TooManyElements('too many tagged fields')")
        kept = self.new_name("kept")
        self.add(f"{kept} = []")
        self.add(f"for _ in range({count}):")
        self.depth += 1
        self.count_element()
        self.read_tag(tagged, values, kept)
        self.depth -= 1
        self.add(f"{unknown} = tuple({kept})")
        self.depth -= 1
        return unknown

    def read_tag(self, tagged: list[Field], values: dict[str, str], kept: str) -> None:
        tag, size, stop = self.new_name("tag"), self.new_name("size"), self.new_name("stop")
        self.add(f"{tag}, p = read_uvarint(buffer, p)")
        self.add(f"{size}, p = read_uvarint(buffer, p)")
        self.add(f"{stop} = p + {size}")
        self.add(f"if {stop} > end: raise MalformedMessage('tagged field is truncated')")
        branch = "if"
        for field in tagged:
            self.add(f"{branch} {tag} == {field.tag}:")
            self.depth += 1
            self.add(f"{values[field.name]} = {self.read_tagged(field)}")
            self.raise_if(f"p != {stop}", field, "size of the tagged field does not match")
            self.depth -= 1
            branch = "elif"
        keep = f"{kept}.append(({tag}, bytes(buffer[p:{stop}]))); p = {stop}"
        self.add(f"else: {keep}" if tagged else keep)

    def read_tagged(self, field: Field) -> str:
        if not is_fixed_size(field):
            return self.read_field(field)
        assert field.kind is not None
        return self.read_one(field.kind, field)


class SlicedReaderSource(Sliced, ReaderSource):
    """Source of a generator that yields after each slice and returns the reader's result."""


def slice_expression(kind: Kind, stop: str) -> str:
    if kind is STRING:
        return f"str(buffer[p:{stop}], 'utf-8')"
    if kind is BYTES:
        return f"bytes(buffer[p:{stop}])"
    assert kind is RECORDS
    return f"buffer[p:{stop}]"
