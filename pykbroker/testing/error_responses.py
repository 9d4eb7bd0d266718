"""Makes the answer that refuses a request, for any API, out of the names both have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pykbroker.testing.request_splitting import NUMBERS
from pykbroker.testing.response_errors import ERROR_CODES, tells_errors
from pykbroker_protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pykbroker.testing.request_splitting import PartitionFilter
    from pykbroker_protocol.errors import ErrorCode
    from pykbroker_protocol.message import Field, Message

ALIASES: Final = (
    NUMBERS,
    ("name", "topic"),
    ("group_id", "group"),
    ("key",),
    ("topic_id",),
    ("transactional_id",),
    ("resource_type",),
    ("resource_name",),
    ("producer_id",),
)
NAMES_OF_TEXT: Final = ("name", "key", "group_id", "transactional_id")
"""What a row of the answer calls the text that stands alone in the request."""

READ_AND_CHANGED: Final = frozenset((ApiKey.FETCH, ApiKey.METADATA))
"""Of these the true answer is taken and its rows are changed: their requests do not name all."""


def refusal(
    request: Any,
    response: type[Message],
    version: int,
    code: ErrorCode,
    *,
    rows_first: bool = False,
) -> Any:
    """The error stands where Kafka has one place for all of a request, else at each row."""
    pairs = list(row_fields(request, response, version))
    values: dict[str, Any] = {
        field.name: field.zero()
        for field in response.fields
        if field.default is None and version in field.versions and version not in field.nullable
    }
    values |= shared_names(request, response)
    own = [it.name for it in response.fields if it.name in ERROR_CODES and version in it.versions]
    if own and not (rows_first and any(rows for _, rows in pairs)):
        return response(**values, **dict.fromkeys(own, code))
    for field, rows in pairs:
        assert field.struct is not None
        values[field.name] = [refusal(row, field.struct, version, code) for row in rows]
    return response(**values)


def row_fields(
    request: Any, response: type[Message], version: int
) -> Iterator[tuple[Field, Sequence[Any]]]:
    """The rows of the answer that have errors, each with the rows of the request they answer."""
    arrays = [it for it in getattr(request, "fields", ()) if it.is_array and version in it.versions]
    by_name = {it.name: it for it in arrays}
    for field in response.fields:
        if field.struct is None or not field.is_array or version not in field.versions:
            continue
        if tells_errors(field.struct) and arrays:
            source = by_name.get(field.name, arrays[0])
            yield field, getattr(request, source.name) or ()


def shared_names(request: Any, response: type[Message]) -> dict[str, Any]:
    """What tells the rows of an answer apart."""
    wanted = [field.name for field in response.fields]
    if isinstance(request, str):
        return {name: request for name in wanted if name in NAMES_OF_TEXT}
    if isinstance(request, int):
        return {name: request for name in wanted if name in NUMBERS}
    found: dict[str, Any] = {}
    for names in ALIASES:
        given = [getattr(request, name) for name in names if hasattr(request, name)]
        found |= {name: given[0] for name in wanted if name in names and given}
    return found


# --- where the answer is read first


def changed(
    answer: Message, sieve: PartitionFilter, version: int, code: ErrorCode
) -> Message | None:
    """The true answer with an error in each row that is meant; None if there is no such row."""
    concerned, rest = sieve.split(answer)
    if concerned is None:
        return None
    refused = refusal(concerned, type(answer), version, code, rows_first=True)
    return answer.replace(**rows_together(refused, rest or empty(answer)))


def joined(refused: Message, rest: Message) -> Message:
    """Two answers to two parts of a request as one."""
    return rest.replace(**rows_together(refused, rest))


def rows_together(refused: Message, rest: Message) -> dict[str, list[Any]]:
    together = {}
    for field in refused.fields:
        if field.is_array and field.struct is not None and tells_errors(field.struct):
            rows = {row_name(it): it for it in getattr(rest, field.name) or ()}
            for row in getattr(refused, field.name) or ():
                known = rows.get(row_name(row))
                rows[row_name(row)] = row if known is None else joined(row, known)
            together[field.name] = list(rows.values())
    return together


def row_name(row: Any) -> tuple[Any, ...]:
    return tuple(getattr(row, name) for names in ALIASES for name in names if hasattr(row, name))


def empty(answer: Message) -> Message:
    arrays = [it.name for it in answer.fields if it.is_array and it.struct is not None]
    return answer.replace(**dict.fromkeys(arrays, ()))
