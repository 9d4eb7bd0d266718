"""Reads records out of what people type and programs pipe: values, `key:value`, JSON lines."""

from __future__ import annotations

import base64
import binascii
import json
from typing import TYPE_CHECKING, Any, Final

from pykbroker.cli.command_line.values import INT32_MAX, INT64_MAX, shown
from pykbroker.cli.failure import CannotBegin, CommandFailed
from pykbroker.client.producer import NewRecord
from pykbroker_protocol.records.batch import NO_TIMESTAMP

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable

    from pykbroker.client.producer import Headers

FIELDS: Final = frozenset(
    [
        "topic",
        "partition",
        "offset",
        "timestamp",
        "headers",
        "key",
        "key_base64",
        "value",
        "value_base64",
    ]
)
"""As `consume --format json` prints them."""
HEADER_FIELDS: Final = frozenset(("name", "value", "value_base64"))

PARTITIONS: Final = range(INT32_MAX + 1)
TIMESTAMPS: Final = range(NO_TIMESTAMP, INT64_MAX)
"""A batch has the distances between them, which must fit 64 bits with their sign, too."""


class BadLine(CommandFailed):
    """A line of the input is no record."""


def line_reader(options: Namespace) -> Callable[[bytes], NewRecord]:
    """How this command line wants its lines to be read."""
    null = typed_bytes(options.null) if options.null is not None else None
    headers = tuple(typed_header(*header) for header in options.headers)
    if options.json_lines:
        return json_reader(headers, options)
    if options.key_separator is not None:
        return separated_reader(typed_bytes(options.key_separator), null, headers, options)
    return value_reader(null, headers, options)


def value_reader(
    null: bytes | None, headers: Headers, options: Namespace
) -> Callable[[bytes], NewRecord]:
    key = nullable(typed_bytes(options.key), null) if options.key is not None else None

    def read(line: bytes) -> NewRecord:
        return NewRecord(
            key=key,
            value=nullable(line, null),
            headers=headers,
            partition=options.partition,
            timestamp=options.timestamp,
        )

    return read


def separated_reader(
    separator: bytes, null: bytes | None, headers: Headers, options: Namespace
) -> Callable[[bytes], NewRecord]:
    if not separator:
        raise CannotBegin("--key-separator: it may not be empty")

    def read(line: bytes) -> NewRecord:
        key, found, value = line.partition(separator)
        if not found:
            raise BadLine(f"a line without {shortened(separator)!r}: {shortened(line)}")
        return NewRecord(
            key=nullable(key, null),
            value=nullable(value, null),
            headers=headers,
            partition=options.partition,
            timestamp=options.timestamp,
        )

    return read


def json_reader(headers: Headers, options: Namespace) -> Callable[[bytes], NewRecord]:
    def read(line: bytes) -> NewRecord:
        try:
            document = json.loads(line)
            if not isinstance(document, dict):
                raise BadLine(f"a line that is no JSON object: {shortened(line)}")
            refuse_unknown(document, FIELDS)
            return NewRecord(
                key=field_bytes(document, "key"),
                value=field_bytes(document, "value"),
                headers=headers + json_headers(document.get("headers") or ()),
                partition=chosen(options.partition, document.get("partition"), PARTITIONS),
                timestamp=chosen(options.timestamp, document.get("timestamp"), TIMESTAMPS),
            )
        except (ValueError, TypeError, KeyError, binascii.Error) as reason:
            raise BadLine(f"a line that is no record ({reason}): {shortened(line)}") from reason
        except RecursionError:
            text = f"a line that is no record (too deep): {shortened(line)}"
            raise BadLine(text) from None

    return read


def refuse_unknown(document: dict[str, Any], known: frozenset[str]) -> None:
    """A misspelt `value` would write a record without a value, which deletes its key."""
    unknown = set(document) - known
    if unknown:
        names = ", ".join(shown(it) for it in sorted(unknown))
        raise ValueError(f"unknown field {names}, use {', '.join(sorted(known))}")


def chosen(option: int | None, in_line: Any, possible: range) -> int | None:
    """What the command line says counts for every line."""
    if option is not None or in_line is None:
        return option
    if isinstance(in_line, bool) or not isinstance(in_line, int):
        raise TypeError(f"{shown(str(in_line))} is not a whole number")
    if in_line not in possible:
        raise ValueError(f"{in_line} is not between {possible[0]} and {possible[-1]}")
    return in_line


def field_bytes(document: dict[str, Any], name: str) -> bytes | None:
    encoded = document.get(f"{name}_base64")
    if encoded is not None and document.get(name) is not None:
        raise ValueError(f"both {name} and {name}_base64 are given")
    if encoded is not None:
        return base64.b64decode(encoded, validate=True)
    return text_bytes(document.get(name))


def text_bytes(value: Any) -> bytes | None:
    """Strings as they are, null as null, everything else as JSON."""
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def json_headers(headers: Any) -> Headers:
    """An object, or a list of {"name": …, "value": …} where a name comes twice."""
    if isinstance(headers, dict):
        return tuple((header_name(name), text_bytes(value)) for name, value in headers.items())
    for header in headers:
        refuse_unknown(header, HEADER_FIELDS)
    return tuple((header_name(header["name"]), field_bytes(header, "value")) for header in headers)


def header_name(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(f"{shown(str(name))} is no name")
    name.encode()  # half of a surrogate pair can be written in JSON, but not in UTF-8
    return name


def typed_header(name: str, value: str) -> tuple[str, bytes]:
    try:
        return header_name(name), typed_bytes(value)
    except UnicodeEncodeError:
        raise CannotBegin(f"--header: the name {name!r} is no text") from None


def typed_bytes(text: str) -> bytes:
    """What somebody typed, byte for byte, even where it is not UTF-8."""
    return text.encode(errors="surrogateescape")


def nullable(text: bytes, null: bytes | None) -> bytes | None:
    return None if text == null else text


def shortened(line: bytes, limit: int = 80) -> str:
    text = line.decode(errors="replace")
    return text if len(text) <= limit else text[:limit] + "…"
