"""`Row`, a record to append, and `Record`, a record of a topic."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Key: TypeAlias = "str | Callable[[Any], object]"

Json: TypeAlias = "dict[str, Any] | list[Any] | int | float | bool"
Value: TypeAlias = "bytes | str | Json | None"
"""Bytes are written unchanged, text as UTF-8 and other values as JSON; None is a tombstone."""


@dataclass(frozen=True, slots=True)
class Row:
    """A record to append with key, partition, headers or timestamp."""

    value: Value
    _: KW_ONLY
    key: Value = None
    partition: int | None = None
    headers: Mapping[str, bytes | str | None] = field(default_factory=dict)
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A record of a topic."""

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
        """The value parsed as JSON."""
        import json  # noqa: PLC0415  # not needed for a start

        return json.loads(self.text)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}@{self.offset}"


def row_list(rows: Iterable[Value | Row]) -> list[Value | Row]:
    """Returns rows as a list. Raises TypeError for a single value that is itself iterable."""
    if isinstance(rows, (str, bytes, bytearray, dict)):
        raise TypeError(f"rows must be a list of values; did you mean [{rows!r}]?")
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
            import json  # noqa: PLC0415  # not needed for a start

            return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def as_row(value: Value | Row, key: Key | None) -> Row:
    """Converts a value to a Row. 'key' is the name of the key field or a function of the value."""
    if isinstance(value, Row):
        return value
    if key is None:
        return Row(value)
    if callable(key):
        return Row(value, key=key(value))  # type: ignore[arg-type]  # as_bytes takes any value
    if not isinstance(value, dict):
        raise TypeError(f"key={key!r} is the name of a field, but {value!r} has no fields")
    return Row(value, key=value[key])
