"""What tests write and read: rows on their way in, records on their way out."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Key: TypeAlias = "str | Callable[[Any], object]"

Json: TypeAlias = "dict[str, Any] | list[Any] | int | float | bool"
Value: TypeAlias = "bytes | str | Json | None"
"""Bytes are taken as they are, text as UTF-8, anything else as JSON; None is a tombstone."""


@dataclass(frozen=True, slots=True)
class Row:
    """A record to be written, where a bare value does not say enough."""

    value: Value
    _: KW_ONLY
    key: Value = None
    partition: int | None = None
    headers: Mapping[str, bytes | str | None] = field(default_factory=dict)
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A record as it lies in the topic."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()

    @property
    def text(self) -> str:
        """The value as UTF-8."""
        assert self.value is not None, f"{self} is a tombstone"
        return self.value.decode()

    def json(self) -> Any:
        """The value read as JSON."""
        import json  # noqa: PLC0415  # a start need not wait for it

        return json.loads(self.text)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}@{self.offset}"


def many(rows: Iterable[Value | Row]) -> list[Value | Row]:
    """All of them; a single value, whose letters or fields could be taken for rows, is refused."""
    if isinstance(rows, (str, bytes, bytearray, dict)):
        raise TypeError(f"rows come in a list; is it [{rows!r}] that is meant?")
    return list(rows)


def as_bytes(value: Value) -> bytes | None:
    match value:
        case None | bytes():
            return value
        case bytearray() | memoryview():
            return bytes(value)
        case str():
            return value.encode()
        case _:
            import json  # noqa: PLC0415  # a start need not wait for it

            return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def as_row(value: Value | Row, key: Key | None) -> Row:
    """A row of its own says its key itself; of a bare value `key` names a field, or computes it."""
    if isinstance(value, Row):
        return value
    if key is None:
        return Row(value)
    if callable(key):
        return Row(value, key=key(value))  # type: ignore[arg-type]  # as_bytes has a word for all
    if not isinstance(value, dict):
        raise TypeError(f"key={key!r} names a field, and {value!r} has no fields")
    return Row(value, key=value[key])
