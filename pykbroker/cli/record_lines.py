"""Parses input lines of `produce`: values, `key:value`, JSON."""

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
"""The fields that `consume --format json` prints."""
HEADER_FIELDS: Final = frozenset(("name", "value", "value_base64"))

PARTITIONS: Final = range(INT32_MAX + 1)
TIMESTAMPS: Final = range(NO_TIMESTAMP, INT64_MAX)
"""A batch stores differences of timestamps as signed 64-bit numbers."""


class InvalidLine(CommandFailed):
    """An input line is not a valid record."""


def line_reader(options: Namespace) -> Callable[[bytes], NewRecord]:
    """Returns the parser of input lines for these options."""
    null = argument_bytes(options.null) if options.null is not None else None
    headers = tuple(parsed_header(*header) for header in options.headers)
    if options.json_lines:
        return json_reader(headers, options)
    if options.key_separator is not None:
        return separated_reader(argument_bytes(options.key_separator), null, headers, options)
    return value_reader(null, headers, options)


def value_reader(
    null: bytes | None, headers: Headers, options: Namespace
) -> Callable[[bytes], NewRecord]:
    key = nullable(argument_bytes(options.key), null) if options.key is not None else None

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
        raise CannotBegin("--key-separator must not be empty")

    def read(line: bytes) -> NewRecord:
        key, found, value = line.partition(separator)
        if not found:
            raise InvalidLine(f"no separator {shortened(separator)!r}: {shortened(line)}")
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
                raise InvalidLine(f"not a JSON object: {shortened(line)}")
            reject_unknown(document, FIELDS)
            return NewRecord(
                key=field_bytes(document, "key"),
                value=field_bytes(document, "value"),
                headers=headers + json_headers(document.get("headers") or ()),
                partition=option_or_field(options.partition, document.get("partition"), PARTITIONS),
                timestamp=option_or_field(options.timestamp, document.get("timestamp"), TIMESTAMPS),
            )
        except (ValueError, TypeError, KeyError, binascii.Error) as reason:
            raise InvalidLine(f"invalid record ({reason}): {shortened(line)}") from reason
        except RecursionError:
            raise InvalidLine(f"nested too deeply: {shortened(line)}") from None

    return read


def reject_unknown(document: dict[str, Any], known: frozenset[str]) -> None:
    """Raises ValueError for unknown fields: a misspelt `value` would write a tombstone."""
    unknown = set(document) - known
    if unknown:
        names = ", ".join(shown(it) for it in sorted(unknown))
        raise ValueError(f"unknown field {names}, use {', '.join(sorted(known))}")


def option_or_field(option: int | None, in_line: Any, valid: range) -> int | None:
    """Returns the value of the option, else that of the line; raises if it is invalid."""
    if option is not None or in_line is None:
        return option
    if isinstance(in_line, bool) or not isinstance(in_line, int):
        raise TypeError(f"{shown(str(in_line))} is not an integer")
    if in_line not in valid:
        raise ValueError(f"{in_line} is not between {valid[0]} and {valid[-1]}")
    return in_line


def field_bytes(document: dict[str, Any], name: str) -> bytes | None:
    encoded = document.get(f"{name}_base64")
    if encoded is not None and document.get(name) is not None:
        raise ValueError(f"both {name} and {name}_base64 are given")
    if encoded is not None:
        return base64.b64decode(encoded, validate=True)
    return text_bytes(document.get(name))


def text_bytes(value: Any) -> bytes | None:
    """Encodes strings as UTF-8 and other values as JSON; returns None for null."""
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def json_headers(headers: Any) -> Headers:
    """Parses an object, or a list of {"name": …, "value": …}, which allows repeated names."""
    if isinstance(headers, dict):
        return tuple((header_name(name), text_bytes(value)) for name, value in headers.items())
    for header in headers:
        reject_unknown(header, HEADER_FIELDS)
    return tuple((header_name(header["name"]), field_bytes(header, "value")) for header in headers)


def header_name(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(f"{shown(str(name))} is not a name")
    name.encode()  # raises for a lone surrogate, which JSON can contain
    return name


def parsed_header(name: str, value: str) -> tuple[str, bytes]:
    try:
        return header_name(name), argument_bytes(value)
    except UnicodeEncodeError:
        raise CannotBegin(f"--header: name {name!r} is not valid UTF-8") from None


def argument_bytes(text: str) -> bytes:
    """Returns the bytes of a command-line argument, also if they are not UTF-8."""
    return text.encode(errors="surrogateescape")


def nullable(text: bytes, null: bytes | None) -> bytes | None:
    return None if text == null else text


def shortened(line: bytes, limit: int = 80) -> str:
    text = line.decode(errors="replace")
    return text if len(text) <= limit else text[:limit] + "…"
