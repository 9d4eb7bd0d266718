"""Writes the source of a writer: the value of one message to its bytes in one version."""

from __future__ import annotations

import struct
import sys
from typing import TYPE_CHECKING

from pykbroker_protocol.message import NO_VERSIONS, RECORDS, STRING, UUID
from pykbroker_protocol.source import Sliced, Source, TooManyElements, is_fixed

if TYPE_CHECKING:
    from pykbroker_protocol.message import Field, Kind, Message

RECORDS_COPIED_MAX = 4096
"""Records up to this size are copied into the frame; larger ones travel as they lie."""

THERE = 1
"""The byte before a struct that might have been null."""


SLICE_BYTES = 64 * 1024
"""A sliced writer begins a new part after this much: one large part is copied as it grows."""


class WriterSource(Source):
    """Source of `run(message, out, parts) -> out`; what is in `parts` goes before `out`.

    Arrays of fixed-size values are written by one call and not counted as elements.
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
        self.refuse_what_would_be_lost(of, message)
        for run in self.runs(of.fields):
            if is_fixed(run[0]):
                self.write_fixed(run, message, out)
            else:
                self.write_field(run[0], f"{message}.{run[0].name}", out)
        if self.flexible:
            self.write_tags(self.tagged(of.fields), message, out)

    def refuse_what_would_be_lost(self, of: type[Message], message: str) -> None:
        for field in of.fields:
            if self.version not in field.versions and not field.ignorable:
                condition = differs(f"{message}.{field.name}", field, self)
                self.add(f"if {condition}:")
                self.add(f"    raise UnsupportedField('{of.__name__}.{field.name}')")

    def write_fixed(self, run: list[Field], message: str, out: str) -> None:
        layout = struct.Struct(">" + "".join(field.kind.letter for field in run if field.kind))
        pack = self.named("pack", layout.pack)
        values = ", ".join(f"{message}.{field.name}" for field in run)
        self.add(f"{out} += {pack}({values})")

    def write_field(self, field: Field, value: str, out: str) -> None:
        self.refuse_null(field, value)
        if field.is_array:
            self.write_array(field, value, out)
        elif field.struct is not None:
            self.write_nested(field, value, out)
        else:
            assert field.kind is not None
            self.write_sized(field.kind, field, value, out, nullable=self.may_be_null(field))

    def refuse_null(self, field: Field, value: str) -> None:
        """A null of a newer version has no place in one that does not know it."""
        if field.nullable != NO_VERSIONS and not self.may_be_null(field):
            self.add(f"if {value} is None: raise UnsupportedField('null as {field.name}')")

    def write_one(self, kind: Kind, field: Field, value: str, out: str) -> None:
        if not kind.letter:
            self.write_sized(kind, field, value, out, nullable=False)
            return
        pack = self.named("pack", struct.Struct(">" + kind.letter).pack)
        self.add(f"{out} += {pack}({value})")

    def write_sized(
        self, kind: Kind, field: Field, value: str, out: str, *, nullable: bool
    ) -> None:
        content = self.fresh("content")
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
        """Write a null, and leave the writer in the branch of what is not null."""
        null = b"\0" if compact else struct.pack(">" + letter, -1)
        self.add(f"if {content} is None: {out} += {null!r}")
        self.add("else:")
        self.depth += 1

    def write_length(self, length: str, out: str, *, compact: bool, letter: str) -> None:
        if compact:
            size = self.fresh("size")
            self.add(f"{size} = {length} + 1")
            self.add(f"if {size} < 128: {out}.append({size})")
            self.add(f"else: {out} += uvarint({size})")
            return
        pack = self.named("pack", struct.Struct(">" + letter).pack)
        self.add(f"{out} += {pack}({length})")

    def write_array(self, field: Field, value: str, out: str) -> None:
        items, item = self.fresh("items"), self.fresh("item")
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
        nested = self.fresh("nested")
        self.add(f"{nested} = {value}")
        if not self.may_be_null(field):
            self.write_struct(field.struct, nested, out)
            return
        self.add(f"if {nested} is None: {out}.append({self.null_mark(field)})")
        self.add("else:")
        self.depth += 1
        self.add(f"{out}.append({THERE})")
        self.write_struct(field.struct, nested, out)
        self.depth -= 1

    def write_tags(self, tagged: list[Field], message: str, out: str) -> None:
        tags, content = self.fresh("tags"), self.fresh("content")
        self.add(f"{tags} = {message}.unknown_tags")
        for field in tagged:
            value = f"{message}.{field.name}"
            self.add(f"if {differs(value, field, self)}:")
            self.depth += 1
            self.add(f"{content} = bytearray()")
            if is_fixed(field):
                self.write_one(field.kind, field, value, content)  # type: ignore[arg-type]  # fixed
            else:
                self.write_field(field, value, content)
            self.add(f"{tags} = (*{tags}, ({field.tag}, {content}))")
            self.depth -= 1
        self.add(f"if {tags}:")
        self.depth += 1
        tag = self.fresh("tag")
        self.add(f"{out} += uvarint(len({tags}))")
        self.add(f"for {tag}, {content} in sorted({tags}):")
        self.add(
            f"    {out} += uvarint({tag}); {out} += uvarint(len({content})); {out} += {content}"
        )
        self.depth -= 1
        self.add(f"else: {out}.append(0)")


class SlicedWriterSource(Sliced, WriterSource):
    """Source of a generator that yields after each slice and returns what the writer returns."""

    def count_element(self) -> None:
        super().count_element()
        self.add(f"    if len(out) > {SLICE_BYTES}: parts.append(out); out = bytearray()")


def differs(value: str, field: Field, source: Source) -> str:
    """The condition under which a field does not hold its default."""
    if field.default is None:
        return f"{value} is not None"
    if field.is_array:
        never_null = field.nullable == NO_VERSIONS
        return f"len({value})" if never_null else f"{value} is None or len({value})"
    default = source.named("default", field.default)
    if field.struct is not None:  # an untouched struct is the default itself: no need to compare
        return f"{value} is not {default} and {value} != {default}"
    return f"{value} != {default}"
