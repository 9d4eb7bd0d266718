"""Parses the names of Spark's column types."""

from __future__ import annotations

import re
from typing import Final

SIMPLE: Final = frozenset({
    "string", "boolean", "byte", "tinyint", "short", "smallint", "int", "integer", "long",
    "bigint", "float", "real", "double", "date", "timestamp", "timestamp_ntz", "binary",
})  # fmt: skip
DECIMAL: Final = re.compile(r"(?:decimal|numeric)(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?")
NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
DECIMAL_DIGITS_MAX: Final = 38


def is_column_type(text: str) -> bool:
    """Returns true for `double`, `decimal(10,2)`, `array<struct<at:timestamp>>`."""
    text = text.strip().lower()
    if text in SIMPLE:
        return True
    if decimal := DECIMAL.fullmatch(text):
        digits, scale = int(decimal[1] or 10), int(decimal[2] or 0)
        return 0 < digits <= DECIMAL_DIGITS_MAX and scale <= digits
    kind, bracket, rest = text.partition("<")
    if not bracket or not rest.endswith(">"):
        return False
    return is_compound(kind.strip(), split_outside_brackets(rest[:-1]))


def is_compound(kind: str, parts: list[str]) -> bool:
    match kind:
        case "array":
            return len(parts) == 1 and is_column_type(parts[0])
        case "map":
            return len(parts) == 2 and all(map(is_column_type, parts))
        case "struct":
            return all(map(is_field, parts))
        case _:
            return False


def is_field(text: str) -> bool:
    name, colon, kind = text.partition(":")
    return bool(colon) and NAME.fullmatch(name.strip()) is not None and is_column_type(kind)


def split_outside_brackets(text: str) -> list[str]:
    """Splits at commas outside of brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "<(") - (character in ">)")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts
