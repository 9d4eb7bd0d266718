"""JSON representation of topics, records, committed offsets, clock and timeline."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from pykbroker.testing.broker_options import Topic
from pykbroker.testing.control.arguments import (
    as_count,
    as_decoded,
    as_list,
    as_object,
    as_property,
    as_text,
    as_timestamp,
    read_argument,
    read_given,
)
from pykbroker.testing.control.http import HttpError
from pykbroker.testing.rows import Row, as_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pykbroker.broker import Broker
    from pykbroker.testing.movable_clock import MovableClock
    from pykbroker.testing.rows import Record, Value
    from pykbroker.testing.timeline import Timeline


def topics(broker: Broker) -> list[dict[str, Any]]:
    found = broker.image.topics
    return [
        {
            "name": name,
            "partitions": [
                {
                    "partition": it.index,
                    "start_offset": held.log.log_start_offset,
                    "end_offset": held.log.log_end_offset,
                }
                for it in found[name].partitions
                if (held := broker.partitions.get(name, it.index)) is not None
            ],
        }
        for name in sorted(found)
    ]


def record(it: Record) -> dict[str, Any]:
    """The format of `pykbroker consume --format json`."""
    return {
        "topic": it.topic,
        "partition": it.partition,
        "offset": it.offset,
        "timestamp": it.timestamp_ms,
        **bytes_field("key", it.key),
        **bytes_field("value", it.value),
        "headers": [{"name": name, **bytes_field("value", value)} for name, value in it.headers],
    }


def bytes_field(name: str, value: bytes | None) -> dict[str, str | None]:
    if value is None:
        return {name: None}
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(value).decode()}


def offsets(found: Mapping[tuple[str, int], int]) -> list[dict[str, Any]]:
    return [
        {"topic": topic, "partition": partition, "offset": offset}
        for (topic, partition), offset in sorted(found.items())
    ]


def clock(it: MovableClock) -> dict[str, Any]:
    return {"now": it.now.isoformat(), "now_ms": it.now_ms(), "stands": it.is_frozen}


def timeline(it: Timeline) -> list[dict[str, Any]]:
    return [{"seconds": round(event.seconds, 3), "text": event.text} for event in it]


# --- parsing


def row(document: Any) -> Row:
    """Parses a record of the same format. Missing fields get the broker's defaults."""
    if not isinstance(document, dict):
        raise HttpError(400, "a record must be an object with key, value, headers")
    return Row(
        value_of(document, "value"),
        key=value_of(document, "key"),
        partition=read_given(document, "partition", as_count),
        headers=headers_of(document.get("headers") or []),
        timestamp_ms=read_given(document, "timestamp", as_timestamp),
    )


def headers_of(document: Any) -> dict[str, bytes | None]:
    """Parses an object, or a list of objects with name and value."""
    if isinstance(document, dict):
        return {name: as_bytes(value) for name, value in document.items()}
    return dict(header(it) for it in read_argument("headers", as_list, document))


def header(document: Any) -> tuple[str, bytes | None]:
    found = read_argument("header", as_object, document)
    return read_argument("name", as_text, found.get("name")), as_bytes(value_of(found, "value"))


def value_of(document: Mapping[str, Any], name: str) -> Value:
    encoded = read_given(document, f"{name}_base64", as_decoded)
    value: Value = document.get(name)
    return value if encoded is None else encoded


def parse_topics(document: Any) -> dict[str, int | Topic]:
    """Parses a list of names, or an object with partitions or a topic object per name."""
    if isinstance(document, list):
        document = {read_argument("topic", as_text, it): 1 for it in document}
    if not isinstance(document, dict):
        raise HttpError(400, 'topics must be a list of names or {"name": partitions}')
    return {name: parse_topic(name, it) for name, it in document.items()}


def parse_topic(name: str, document: Any) -> int | Topic:
    if isinstance(document, int) and not isinstance(document, bool):
        return document
    if not isinstance(document, dict) or set(document) - {"partitions", "config"}:
        raise HttpError(400, f"topic {name}: expected an object with partitions and config")
    partitions = read_given(document, "partitions", as_count)
    config = read_given(document, "config", as_object) or {}
    return Topic(
        1 if partitions is None else partitions,
        config={each: read_argument(each, as_property, it) for each, it in config.items()},
    )
