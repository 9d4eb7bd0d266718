"""Expected records for `==` comparisons in tests, and readable explanations of differences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pykbroker.testing.rows import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pykbroker.testing.rows import Value


class _Anything:
    def __repr__(self) -> str:
        return "anything"


ANYTHING: Final[Any] = _Anything()


class ExpectedRecord:
    """Equal to every record with these fields. Fields that are not given match any value."""

    def __init__(self, value: Any, **named: Any) -> None:
        self._value = value
        self._named = {name: it for name, it in named.items() if it is not ANYTHING}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and not any(True for _ in self.differences(other))

    __hash__ = None  # type: ignore[assignment]  # equal to different records

    def __repr__(self) -> str:
        parts = [] if self._value is ANYTHING else [repr(self._value)]
        parts += [f"{name}={it!r}" for name, it in self._named.items()]
        return f"a_record({', '.join(parts)})"

    def differences(self, record: Record) -> Iterator[str]:
        """Yields one phrase per field that differs."""
        if self._value is not ANYTHING:
            found = converted_like(self._value, record.value)
            if found != plain(self._value):
                yield f"value is {found!r}, not {self._value!r}"
        for name, expected in self._named.items():
            found = COMPARED[name](record, expected)
            if found != expected:
                yield f"{name} is {found!r}, not {expected!r}"


def a_record(
    value: Any = ANYTHING,
    *,
    key: Any = ANYTHING,
    fields: Mapping[str, Any] = ANYTHING,
    headers: Mapping[str, bytes | str | None] = ANYTHING,
    topic: str = ANYTHING,
    partition: int = ANYTHING,
    offset: int = ANYTHING,
    timestamp_ms: int = ANYTHING,
) -> Any:
    """An expected record. Values other than bytes and text are compared as JSON.

    `fields` compares only these fields of a JSON object.
    """
    return ExpectedRecord(
        value,
        key=key,
        fields=fields,
        headers=headers,
        topic=topic,
        partition=partition,
        offset=offset,
        timestamp_ms=timestamp_ms,
    )


def converted_like(expected: Any, found: bytes | None) -> Any:
    """Decodes 'found' to the type of 'expected': bytes, text or JSON."""
    if found is None or expected is None or isinstance(expected, bytes):
        return found
    import json  # noqa: PLC0415  # not needed for a start

    try:
        return found.decode() if isinstance(expected, str) else json.loads(found)
    except ValueError:
        return found


def plain(expected: Any) -> Any:
    return bytes(expected) if isinstance(expected, (bytearray, memoryview)) else expected


def fields_of(record: Record, expected: Mapping[str, Any]) -> Any:
    found = converted_like({}, record.value)
    if not isinstance(found, dict):
        return found
    return {name: found[name] for name in expected if name in found}


def headers_of(record: Record, expected: Mapping[str, Value]) -> Any:
    return {name: converted_like(expected.get(name), it) for name, it in record.headers}


COMPARED: Final[Mapping[str, Callable[[Record, Any], Any]]] = {
    "key": lambda record, expected: converted_like(expected, record.key),
    "fields": fields_of,
    "headers": headers_of,
    "topic": lambda record, _: record.topic,
    "partition": lambda record, _: record.partition,
    "offset": lambda record, _: record.offset,
    "timestamp_ms": lambda record, _: record.timestamp_ms,
}


# --- several records


class ExpectedRecords:
    """Equal to a list of records that can be matched one to one with the expected records."""

    def __init__(self, expected: Iterable[Any], *, others_allowed: bool) -> None:
        self.expected = expected_each(expected)
        self.others_allowed = others_allowed

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        missing, unexpected = unmatched(other, self.expected)
        return not missing and (self.others_allowed or not unexpected)

    __hash__ = None  # type: ignore[assignment]  # equal to different lists

    def __repr__(self) -> str:
        name = "containing" if self.others_allowed else "in_any_order"
        return f"{name}({self.expected!r})"


def in_any_order(expected: Iterable[Any]) -> Any:
    """Matches a list of exactly these records, in any order."""
    return ExpectedRecords(expected, others_allowed=False)


def containing(expected: Iterable[Any]) -> Any:
    """Matches a list with at least these records, in any order."""
    return ExpectedRecords(expected, others_allowed=True)


def expected_each(expected: Iterable[Any]) -> list[Any]:
    """Converts plain values to `a_record(value)`."""
    kinds = (ExpectedRecord, Record)
    return [it if isinstance(it, kinds) else a_record(it) for it in expected]


def unmatched(found: Sequence[Any], expected: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Returns expected and found records without a partner in a maximum bipartite matching."""
    partner_of: dict[int, int] = {}  # index of a found record -> index of an expected record

    def find_partner(index: int, tried: set[int]) -> bool:
        for at, record in enumerate(found):
            if at in tried or expected[index] != record:
                continue
            tried.add(at)
            if at not in partner_of or find_partner(partner_of[at], tried):
                partner_of[at] = index
                return True
        return False

    missing = [it for index, it in enumerate(expected) if not find_partner(index, set())]
    return missing, [it for at, it in enumerate(found) if at not in partner_of]


# --- explanations


def explain(found: object, expected: object) -> list[str] | None:
    """Lines that explain how records differ from expected ones; None for other comparisons."""
    if isinstance(found, (ExpectedRecord, ExpectedRecords)) or holds(found, ExpectedRecord):
        found, expected = expected, found
    if isinstance(found, Record) and isinstance(expected, ExpectedRecord):
        return [shown(found), *(f"  {it}" for it in expected.differences(found))]
    if not isinstance(found, list) or not (holds(found, Record) or found == []):
        return None
    if isinstance(expected, ExpectedRecords):
        return explain_matching(found, expected)
    if isinstance(expected, list) and (holds(expected, (ExpectedRecord, Record))):
        return explain_in_order(found, expected)
    return None


def holds(values: object, kind: type | tuple[type, ...]) -> bool:
    return isinstance(values, list) and bool(values) and all(isinstance(it, kind) for it in values)


def explain_matching(found: list[Record], expected: ExpectedRecords) -> list[str]:
    missing, unexpected = unmatched(found, expected.expected)
    lines = [f"records do not match (found: {len(found)})"]
    lines += [f"- missing     {it!r}" for it in missing]
    if not expected.others_allowed:
        lines += [f"+ unexpected  {shown(it)}" for it in unexpected]
    elif missing:
        lines += [f"  present     {shown(it)}" for it in unexpected]
    return lines


def explain_in_order(found: list[Record], expected: list[Any]) -> list[str]:
    lines = [f"records found: {len(found)}, expected: {len(expected)}"]
    for at in range(max(len(found), len(expected))):
        if at >= len(found):
            lines.append(f"- missing     {expected[at]!r}")
        elif at >= len(expected):
            lines.append(f"+ unexpected  {shown(found[at])}")
        elif expected[at] == found[at]:
            lines.append(f"  equal       {shown(found[at])}")
        else:
            lines.append(f"! different   {shown(found[at])}")
            lines += [f"              {it}" for it in differences(found[at], expected[at])]
    return lines


def differences(found: Record, expected: ExpectedRecord | Record) -> Iterator[str]:
    if isinstance(expected, ExpectedRecord):
        yield from expected.differences(found)
        return
    for name in Record.__slots__:
        one, other = getattr(found, name), getattr(expected, name)
        if one != other:
            yield f"{name} is {one!r}, not {other!r}"


def shown(record: Record) -> str:
    key = "" if record.key is None else f"{as_text(record.key)} = "
    return f"{record}: {key}{as_text(record.value)}"


def as_text(value: bytes | None) -> str:
    if value is None:
        return "a tombstone"
    try:
        return repr(value.decode())
    except UnicodeDecodeError:
        return repr(value)
