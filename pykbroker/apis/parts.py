"""Divides a large request into small ones of the same kind, and joins their responses.

Used for APIs with independent elements; `Api.divided` is the array to divide. A large element, for
example a topic with many partitions, is divided at its own largest array.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pykbroker_protocol.message import Message


def parts_of(request: Message, array: str, elements_max: int) -> Iterator[Any]:
    """Yields copies of the request with at most `elements_max` elements each, in order."""
    rows = getattr(request, array)
    if not rows:
        yield request  # large because of another array
    for part in divided(rows or (), elements_max):
        yield request.replace(**{array: part})


def divided(rows: Sequence[Any], elements_max: int) -> Iterator[Sequence[Any]]:
    if not rows or not arrays_of(type(rows[0])):
        for at in range(0, len(rows), elements_max):
            yield rows[at : at + elements_max]
        return
    together: list[Any] = []
    elements = 0
    for row in rows:
        size = elements_in(row)
        if together and elements + size > elements_max:
            yield together
            together, elements = [], 0
        if size > elements_max:
            array = max(arrays_of(type(row)), key=lambda name: len(getattr(row, name) or ()))
            yield from ([part] for part in parts_of(row, array, elements_max))
        else:
            together.append(row)
            elements += size
    if together:
        yield together


def arrays_of(message: Any) -> tuple[str, ...]:
    """Returns the names of the arrays of a message type; other types have none."""
    if message not in _arrays:
        fields = getattr(message, "fields", ())
        _arrays[message] = tuple(field.name for field in fields if field.is_array)
    return _arrays[message]


_arrays: dict[Any, tuple[str, ...]] = {}


def elements_in(row: Message) -> int:
    """Returns the number of elements: the row and all elements of its arrays."""
    elements = 1
    for name in arrays_of(type(row)):
        rows = getattr(row, name) or ()
        if rows and arrays_of(type(rows[0])):
            elements += sum(map(elements_in, rows))
        else:
            elements += len(rows)
    return elements


class Joined:
    """Joins the responses to the parts of a request."""

    __slots__ = ("_arrays", "_last")

    def __init__(self) -> None:
        self._last: Message | None = None
        self._arrays: dict[str, list[Any]] = {}

    def add(self, response: Message) -> None:
        self._last = response
        for name in arrays_of(type(response)):
            rows = getattr(response, name)
            if rows:
                add_rows(self._arrays.setdefault(name, []), rows)

    def response(self) -> Any:
        """Returns the joined response, or None if no part has a response."""
        return None if self._last is None else self._last.replace(**self._arrays)


def add_rows(rows: list[Any], more: Sequence[Any]) -> None:
    """Appends rows and joins an element that was divided between two parts."""
    if not rows or not is_continued(rows[-1], more[0]):
        rows.extend(more)
        return
    last, first = rows.pop(), more[0]
    arrays = {}
    for name in arrays_of(type(last)):
        arrays[name] = list(getattr(last, name) or ())
        if getattr(first, name):
            add_rows(arrays[name], getattr(first, name))
    rows.append(last.replace(**arrays))
    rows.extend(more[1:])


def is_continued(row: Any, other: Any) -> bool:
    arrays = arrays_of(type(row))
    return bool(arrays) and all(
        field.is_array or getattr(row, field.name) == getattr(other, field.name)
        for field in row.fields
    )
