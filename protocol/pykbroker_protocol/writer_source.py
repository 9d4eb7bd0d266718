"""Generates the source of a writer, which encodes one message in one version."""

from __future__ import annotations

import struct
import sys
from typing import TYPE_CHECKING

from pykbroker_protocol.message import NO_VERSIONS, RECORDS, STRING, UUID
from pykbroker_protocol.source import Sliced, Source, TooManyElements, is_fixed_size

if TYPE_CHECKING:
    from pykbroker_protocol.message import Field, Kind, Message

RECORDS_COPIED_MAX = 4096
"""Records up to this size are copied into the frame; larger ones are sent from their own buffer."""

NOT_NULL = 1
"""The byte before a nullable struct that is not null."""

SLICE_BYTES = 64 * 1024
"""A sliced writer starts a new part after this many bytes: a growing bytearray is copied."""


class WriterSource(Source):
    """Source of `run(message, out, parts) -> out`; the buffers in `parts` precede `out`.

    Arrays of fixed-size values are written by one call and do not count as elements.
    """

    def text(self) -> str:
        self.names["TooManyElements"] = TooManyElements
        self.add(f"def run(message, out, parts, left={sys.maxsize}):")
        self.depth = 1
        self.begin_slices()
        self.write_struct(self.message, "message", "out")
        self.add("return out")
        return "\n".join(self.lines)

    def write_struct(self, of: type[Message], message: str, out: str) -> None:
        self.reject_unsupported_fields(of, message)
        for run in self.runs(of.fields):
            if is_fixed_size(run[0]):
                self.write_fixed(run, message, out)
            else:
                self.write_field(run[0], f"{message}.{run[0].name}", out)
        if self.flexible:
            self.write_tags(self.tagged(of.fields), message, out)

    def reject_unsupported_fields(self, of: type[Message], message: str) -> None:
        for field in of.fields:
            if self.version not in field.versions and not field.ignorable:
                condition = differs(f"{message}.{field.name}", field, self)
                self.add(f"if {condition}:")
                self.add(f"    raise UnsupportedField('{of.__name__}.{field.name}')")

    def write_fixed(self, run: list[Field], message: str, out: str) -> None:
        layout = struct.Struct(">" + "".join(field.kind.letter for field in run if field.kind))
        pack = self.bind("pack", layout.pack)
        values = ", ".join(f"{message}.{field.name}" for field in run)
        self.add(f"{out} += {pack}({values})")

    def write_field(self, field: Field, value: str, out: str) -> None:
        self.reject_unsupported_null(field, value)
        if field.is_array:
            self.write_array(field, value, out)
        elif field.struct is not None:
            self.write_nested(field, value, out)
        else:
            assert field.kind is not None
            self.write_sized(field.kind, field, value, out, nullable=self.may_be_null(field))

    def reject_unsupported_null(self, field: Field, value: str) -> None:
        """Raises for null if the field is nullable only in other versions."""
        if field.nullable != NO_VERSIONS and not self.may_be_null(field):
            self.add(f"if {value} is None: raise UnsupportedField('null as {field.name}')")

    def write_one(self, kind: Kind, field: Field, value: str, out: str) -> None:
        if not kind.letter:
            self.write_sized(kind, field, value, out, nullable=False)
            return
        pack = self.bind("pack", struct.Struct(">" + kind.letter).pack)
        self.add(f"{out} += {pack}({value})")

    def write_sized(
        self, kind: Kind, field: Field, value: str, out: str, *, nullable: bool
    ) -> None:
        content = self.new_name("content")
        self.add(f"{content} = {value}")
        letter = "h" if kind is STRING else "i"
        if nullable:
            self.write_null(content, out, compact=self.is_compact(field), letter=letter)
        if kind is STRING:
            self.add(f"{content} = {content}.encode()")
        self.write_length(f"len({content})", out, compact=self.is_compact(field), letter=letter)
        if kind is RECORDS:
            self.write_records(content, out)
        else:
            self.add(f"{out} += {content}")
        if nullable:
            self.depth -= 1

    def write_records(self, content: str, out: str) -> None:
        if out != "out":
            self.add(f"{out} += {content}")
            return
        self.add(f"if len({content}) > {RECORDS_COPIED_MAX}:")
        self.add(f"    parts.append(out); parts.append({content}); out = bytearray()")
        self.add(f"else: out += {content}")

    def write_null(self, content: str, out: str, *, compact: bool, letter: str) -> None:
        """Writes null, then opens the `else` branch for the other values."""
        null = b"\0" if compact else struct.pack(">" + letter, -1)
        self.add(f"if {content} is None: {out} += {null!r}")
        self.add("else:")
        self.depth += 1

    def write_length(self, length: str, out: str, *, compact: bool, letter: str) -> None:
        if compact:
            size = self.new_name("size")
            self.add(f"{size} = {length} + 1")
            self.add(f"if {size} < 128: {out}.append({size})")
            self.add(f"else: {out} += uvarint({size})")
            return
        pack = self.bind("pack", struct.Struct(">" + letter).pack)
        self.add(f"{out} += {pack}({length})")

    def write_array(self, field: Field, value: str, out: str) -> None:
        items, item = self.new_name("items"), self.new_name("item")
        self.add(f"{items} = {value}")
        nullable = self.may_be_null(field)
        if nullable:
            self.write_null(items, out, compact=self.is_compact(field), letter="i")
        self.write_length(f"len({items})", out, compact=self.is_compact(field), letter="i")
        kind = field.kind
        if kind is not None and kind.letter and kind is not UUID:
            self.add(f'{out} += pack_many(f">{{len({items})}}{kind.letter}", *{items})')
        else:
            self.add(f"left -= len({items})")
            self.add(f"if left < 0: raise TooManyElements('{field.name}: too many elements')")
            self.add(f"for {item} in {items}:")
            self.depth += 1
            self.count_element()
            if field.struct is not None:
                self.write_struct(field.struct, item, out)
            else:
                self.write_one(kind, field, item, out)  # type: ignore[arg-type]  # else a kind
            self.depth -= 1
        if nullable:
            self.depth -= 1

    def write_nested(self, field: Field, value: str, out: str) -> None:
        assert field.struct is not None
        nested = self.new_name("nested")
        self.add(f"{nested} = {value}")
        if not self.may_be_null(field):
            self.write_struct(field.struct, nested, out)
            return
        self.add(f"if {nested} is None: {out}.append({self.null_mark(field)})")
        self.add("else:")
        self.depth += 1
        self.add(f"{out}.append({NOT_NULL})")
        self.write_struct(field.struct, nested, out)
        self.depth -= 1

    def write_tags(self, tagged: list[Field], message: str, out: str) -> None:
        tags, content = self.new_name("tags"), self.new_name("content")
        self.add(f"{tags} = {message}.unknown_tags")
        for field in tagged:
            value = f"{message}.{field.name}"
            self.add(f"if {differs(value, field, self)}:")
            self.depth += 1
            self.add(f"{content} = bytearray()")
            if is_fixed_size(field):
                self.write_one(field.kind, field, value, content)  # type: ignore[arg-type]  # fixed
            else:
                self.write_field(field, value, content)
            self.add(f"{tags} = (*{tags}, ({field.tag}, {content}))")
            self.depth -= 1
        self.add(f"if {tags}:")
        self.depth += 1
        tag = self.new_name("tag")
        self.add(f"{out} += uvarint(len({tags}))")
        self.add(f"for {tag}, {content} in sorted({tags}):")
        self.add(
            f"    {out} += uvarint({tag}); {out} += uvarint(len({content})); {out} += {content}"
        )
        self.depth -= 1
        self.add(f"else: {out}.append(0)")


class SlicedWriterSource(Sliced, WriterSource):
    """Source of a generator that yields after each slice and returns the writer's result."""

    def count_element(self) -> None:
        super().count_element()
        self.add(f"    if len(out) > {SLICE_BYTES}: parts.append(out); out = bytearray()")


def differs(value: str, field: Field, source: Source) -> str:
    """Returns the expression that is true if a field does not have its default value."""
    if field.default is None:
        return f"{value} is not None"
    if field.is_array:
        never_null = field.nullable == NO_VERSIONS
        return f"len({value})" if never_null else f"{value} is None or len({value})"
    default = source.bind("default", field.default)
    if field.struct is not None:  # usually the default itself: identity avoids a comparison
        return f"{value} is not {default} and {value} != {default}"
    return f"{value} != {default}"
