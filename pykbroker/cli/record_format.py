"""Formats consumed records as text, JSON or by a template."""

from __future__ import annotations

import base64
import json
import re
import string
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from pykbroker.cli.failure import CannotBegin
from pykbroker.cli.record_lines import argument_bytes

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable

    from pykbroker_protocol.records.record import Record

    Format = Callable[[int, Record], bytes]

SPEC: Final = r"(.?[<>=^])?[-+ ]?0?\d{0,4},?(\.\d{1,4})?[sdxX]?"
"""The accepted format specifications: alignment, width, precision, number base."""
FIELDS: Final = ("topic", "partition", "offset", "timestamp", "time", "key", "value", "headers")


def record_format(options: Namespace) -> Format:
    """Returns the formatter for --format."""
    if options.format == "text":
        return text_format(options)
    if options.format == "json":
        return json_format(options.topic)
    return template_format(options.format, options.topic, options.null)


def text_format(options: Namespace) -> Format:
    null, separator = argument_bytes(options.null), argument_bytes(options.separator)

    def line(_: int, record: Record) -> bytes:
        parts = [null if record.value is None else record.value]
        if options.keys:
            parts.insert(0, null if record.key is None else record.key)
        if options.headers:
            parts.insert(0, argument_bytes(headers_text(record, options.null)))
        return separator.join(parts) + b"\n"

    return line


def json_format(topic: str) -> Format:
    def line(partition: int, record: Record) -> bytes:
        document = {
            "topic": topic,
            "partition": partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            **field("key", record.key),
            **field("value", record.value),
            "headers": [{"name": it[0], **field("value", it[1])} for it in record.headers],
        }
        return json.dumps(document, ensure_ascii=False).encode() + b"\n"

    return line


def field(name: str, content: bytes | None) -> dict[str, Any]:
    """Returns {name: text}, or {name_base64: …} for bytes that are not UTF-8."""
    if content is None:
        return {name: None}
    try:
        return {name: content.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(content).decode()}


def template_format(template: str, topic: str, null: str) -> Format:
    check_template(template)

    def line(partition: int, record: Record) -> bytes:
        text = template.format(
            topic=topic,
            partition=partition,
            offset=record.offset,
            timestamp=record.timestamp,
            time=time_text(record.timestamp),
            key=text_of(record.key, null),
            value=text_of(record.value, null),
            headers=headers_text(record, null),
        )
        return argument_bytes(text) + b"\n"

    return line


def check_template(template: str) -> None:
    """Raises CannotBegin unless the template has only known fields and accepted specifications."""
    try:
        fields = [it[1:3] for it in string.Formatter().parse(template) if it[1] is not None]
        if not fields:
            raise CannotBegin(f"--format: {template!r} is not text, json or a template")
        for name, spec in fields:
            if name not in FIELDS:
                known = ", ".join(FIELDS)
                raise CannotBegin(f"--format: unknown field {{{name}}}, use {known}")
            if spec and not re.fullmatch(SPEC, spec):
                raise CannotBegin(f"--format: {{{name}:{spec}}} is not a width from 0 to 9999")
        template.format(**(dict.fromkeys(FIELDS, "") | dict.fromkeys(FIELDS[1:4], 0)))
    except ValueError as reason:
        raise CannotBegin(f"--format: {template!r}: {reason}") from None


def text_of(content: bytes | None, null: str) -> str:
    return null if content is None else content.decode(errors="backslashreplace")


def headers_text(record: Record, null: str) -> str:
    return ",".join(f"{name}={text_of(value, null)}" for name, value in record.headers)


def time_text(timestamp_ms: int) -> str:
    """Formats a time in UTC with milliseconds; returns the number if it is out of range."""
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, tz=UTC)
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
