"""Records of scenarios, and their conversion to and from the line protocol."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

Header = tuple[str, bytes | None]


class Read(NamedTuple):
    """A record returned by a consumer."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


class Written(NamedTuple):
    """Partition and offset that a producer reported for its record."""

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
    """Returns a record to produce."""
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


def from_line(row: dict[str, Any]) -> Read:
    return Read(
        topic=row["topic"],
        partition=row["partition"],
        offset=row["offset"],
        timestamp_ms=row.get("timestamp_ms"),
        key=_from_text(row["key"]),
        value=_from_text(row["value"]),
        headers=tuple((name, _from_text(value)) for name, value in row["headers"]),
    )


def _to_text(octets: bytes | None) -> str | None:
    return None if octets is None else b64encode(octets).decode()


def _from_text(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)
