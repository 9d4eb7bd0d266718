"""Error responses can be built and decoded for every API in every served version."""

from collections.abc import Iterator
from typing import Any

import pytest

from pykbroker.apis import APIS, Api
from pykbroker.testing.error_responses import (
    PATCHED_RESPONSES,
    error_response,
    merged,
    patched_response,
)
from pykbroker.testing.request_splitting import PartitionFilter
from pykbroker.testing.response_errors import errors_in
from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.compiler import decode, encode
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.message import Kind, Message

CODE = ErrorCode.KAFKA_STORAGE_ERROR
WITHOUT_ERROR_CODE = {("DESCRIBE_LOG_DIRS", 1), ("DESCRIBE_LOG_DIRS", 2)}
"""Versions with an error code only per log directory, which requests do not name."""


def sample(message: type[Message], version: int) -> Any:
    """A message with one row in each array and 't' in each string."""
    values: dict[str, Any] = {}
    for field in message.fields:
        if version not in field.versions:
            continue
        value = one_of(field.kind) if field.struct is None else sample(field.struct, version)
        values[field.name] = [value] if field.is_array else value
    return message(**values)


def one_of(kind: Kind | None) -> Any:
    assert kind is not None
    match kind.name:
        case "string":
            return "t"
        case "bytes" | "records":
            return b""
        case "uuid":
            return bytes(range(16))
        case _:
            return kind.zero


def versions() -> Iterator[tuple[Api, int]]:
    for api in APIS.values():
        for version in range(api.served.first, api.served.last + 1):
            if (api.key.name, version) not in WITHOUT_ERROR_CODE:
                yield api, version


@pytest.mark.parametrize(
    ("api", "version"),
    list(versions()),
    ids=lambda it: it.title if isinstance(it, Api) else f"v{it}",
)
def test_an_error_response_has_the_code_in_the_field_of_its_version(api: Api, version: int) -> None:
    request = sample(api.request_type, version)
    if api.key in PATCHED_RESPONSES:
        response = sample(api.response_type, version)
        made = patched_response(response, PartitionFilter(lambda *_: True, {}), version, CODE)
        assert made is not None
    else:
        made = error_response(request, api.response_type, version, CODE)
    read = decode(api.response_type, version, bytes(encode(made, version)), 0)
    assert [it.rpartition(" ")[2] for it in errors_in(read)] == [CODE.name]


TOPICS_OF_TWO = {
    ApiKey.PRODUCE: 13,
    ApiKey.LIST_OFFSETS: 7,
    ApiKey.OFFSET_COMMIT: 8,
    ApiKey.DELETE_RECORDS: 2,
    ApiKey.TXN_OFFSET_COMMIT: 3,
}


def of_topic(request: Any, name: str, array: str) -> Any:
    """The sample's row for another topic."""
    (row,) = getattr(request, array)
    return row.replace(name=name)


@pytest.mark.parametrize("key", TOPICS_OF_TWO)
def test_a_request_is_split_by_topic(key: ApiKey) -> None:
    api, version = APIS[key], min(TOPICS_OF_TWO[key], 12)
    one = sample(api.request_type, version)
    array = "topic_data" if key is ApiKey.PRODUCE else "topics"
    both = one.replace(**{array: [of_topic(one, "a", array), of_topic(one, "b", array)]})
    affected, rest = PartitionFilter(lambda topic, _: topic == "a", {}).split(both)
    assert [it.name for it in getattr(affected, array)] == ["a"]
    assert [it.name for it in getattr(rest, array)] == ["b"]
    refused = error_response(affected, api.response_type, version, CODE)
    served = error_response(rest, api.response_type, version, ErrorCode.NONE)
    assert list(errors_in(merged(refused, served))) == [f"a-0 {CODE.name}"]


def test_merged_responses_have_all_partitions_of_a_topic_in_one_row() -> None:
    api, version = APIS[ApiKey.LIST_OFFSETS], 7
    request = sample(api.request_type, version)
    (topic,) = request.topics
    (row,) = topic.partitions
    rows = [row.replace(partition_index=it) for it in range(3)]
    request = request.replace(topics=[topic.replace(partitions=rows)])
    affected, rest = PartitionFilter(lambda _, number: number == 1, {}).split(request)
    refused = error_response(affected, api.response_type, version, CODE)
    served = error_response(rest, api.response_type, version, ErrorCode.NONE)
    (row,) = merged(refused, served).topics  # type: ignore[attr-defined]  # a ListOffsets response
    found = {it.partition_index: it.error_code for it in row.partitions}
    assert found == {0: 0, 1: CODE, 2: 0}


def test_config_entries_are_not_taken_for_topics() -> None:
    api = APIS[ApiKey.CREATE_TOPICS]
    request = sample(api.request_type, 7)
    (topic,) = request.topics
    request = request.replace(topics=[topic.replace(assignments=())])
    assert PartitionFilter(lambda topic, _: topic == "t", {}).split(request) == (request, None)
