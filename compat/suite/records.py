"""Records as scenarios write them and as they travel to and from a client's program."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

Header = tuple[str, bytes | None]


class Read(NamedTuple):
    """A record as a consumer handed it out."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


class Written(NamedTuple):
    """Where a producer was told that its record went."""

    topic: str
    partition: int
    offset: int | None


def record(
    topic: str,
    value: bytes | None = b"v",
    *,
    key: bytes | None = None,
    partition: int | None = None,
    headers: Sequence[Header] = (),
    timestamp_ms: int | None = None,
) -> dict[str, Any]:
    """A record that is to be produced."""
    return {
        "topic": topic,
        "partition": partition,
        "key": key,
        "value": value,
        "headers": list(headers),
        "timestamp_ms": timestamp_ms,
    }


def to_line(row: dict[str, Any]) -> dict[str, Any]:
    return row | {
        "key": _to_text(row["key"]),
        "value": _to_text(row["value"]),
        "headers": [[name, _to_text(value)] for name, value in row["headers"]],
    }


def from_line(told: dict[str, Any]) -> Read:
    return Read(
        topic=told["topic"],
        partition=told["partition"],
        offset=told["offset"],
        timestamp_ms=told.get("timestamp_ms"),
        key=_from_text(told["key"]),
        value=_from_text(told["value"]),
        headers=tuple((name, _from_text(value)) for name, value in told["headers"]),
    )


def _to_text(octets: bytes | None) -> str | None:
    return None if octets is None else b64encode(octets).decode()


def _from_text(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)
