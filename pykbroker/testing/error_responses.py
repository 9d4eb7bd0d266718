"""Builds an error response for any API from the field names that request and response share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pykbroker.testing.request_splitting import NUMBERS
from pykbroker.testing.response_errors import ERROR_CODES, has_error_codes
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
"""Response fields that can hold a plain string of the request."""

PATCHED_RESPONSES: Final = frozenset((ApiKey.FETCH, ApiKey.METADATA))
"""APIs that are served first and whose response rows are then replaced by errors: their requests
can leave out the topics that they ask for."""


def error_response(
    request: Any,
    response: type[Message],
    version: int,
    code: ErrorCode,
    *,
    rows_first: bool = False,
) -> Any:
    """Returns a response with the top-level error code if it has one, else with one per row."""
    pairs = list(row_fields(request, response, version))
    values: dict[str, Any] = {
        field.name: field.zero()
        for field in response.fields
        if field.default is None and version in field.versions and version not in field.nullable
    }
    values |= shared_fields(request, response)
    own = [it.name for it in response.fields if it.name in ERROR_CODES and version in it.versions]
    if own and not (rows_first and any(rows for _, rows in pairs)):
        return response(**values, **dict.fromkeys(own, code))
    for field, rows in pairs:
        assert field.struct is not None
        values[field.name] = [error_response(row, field.struct, version, code) for row in rows]
    return response(**values)


def row_fields(
    request: Any, response: type[Message], version: int
) -> Iterator[tuple[Field, Sequence[Any]]]:
    """The response arrays with error codes, each with the request rows it corresponds to."""
    arrays = [it for it in getattr(request, "fields", ()) if it.is_array and version in it.versions]
    by_name = {it.name: it for it in arrays}
    for field in response.fields:
        if field.struct is None or not field.is_array or version not in field.versions:
            continue
        if has_error_codes(field.struct) and arrays:
            source = by_name.get(field.name, arrays[0])
            yield field, getattr(request, source.name) or ()


def shared_fields(request: Any, response: type[Message]) -> dict[str, Any]:
    """The fields that identify a response row, copied from the request row."""
    in_response = [field.name for field in response.fields]
    if isinstance(request, str):
        return {name: request for name in in_response if name in NAMES_OF_TEXT}
    if isinstance(request, int):
        return {name: request for name in in_response if name in NUMBERS}
    found: dict[str, Any] = {}
    for names in ALIASES:
        given = [getattr(request, name) for name in names if hasattr(request, name)]
        found |= {name: given[0] for name in in_response if name in names and given}
    return found


# --- patched and merged responses


def patched_response(
    response: Message, partition_filter: PartitionFilter, version: int, code: ErrorCode
) -> Message | None:
    """The response with an error in each affected row, or None if no row is affected."""
    affected, rest = partition_filter.split(response)
    if affected is None:
        return None
    refused = error_response(affected, type(response), version, code, rows_first=True)
    return response.replace(**merged_rows(refused, rest or without_rows(response)))


def merged(refused: Message, rest: Message) -> Message:
    """Merges the responses to two parts of a request."""
    return rest.replace(**merged_rows(refused, rest))


def merged_rows(refused: Message, rest: Message) -> dict[str, list[Any]]:
    result = {}
    for field in refused.fields:
        if field.is_array and field.struct is not None and has_error_codes(field.struct):
            rows = {row_key(it): it for it in getattr(rest, field.name) or ()}
            for row in getattr(refused, field.name) or ():
                known = rows.get(row_key(row))
                rows[row_key(row)] = row if known is None else merged(row, known)
            result[field.name] = list(rows.values())
    return result


def row_key(row: Any) -> tuple[Any, ...]:
    return tuple(getattr(row, name) for names in ALIASES for name in names if hasattr(row, name))


def without_rows(response: Message) -> Message:
    arrays = [it.name for it in response.fields if it.is_array and it.struct is not None]
    return response.replace(**dict.fromkeys(arrays, ()))
