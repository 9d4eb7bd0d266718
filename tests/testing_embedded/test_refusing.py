"""Every API can be refused in every version, and the refusal is one that clients can read."""

from collections.abc import Iterator
from typing import Any

import pytest

from pykbroker.apis import APIS, Api
from pykbroker.testing.error_responses import READ_AND_CHANGED, changed, joined, refusal
from pykbroker.testing.request_splitting import PartitionFilter
from pykbroker.testing.response_errors import errors_in
from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.compiler import decode, encode
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.message import Kind, Message

CODE = ErrorCode.KAFKA_STORAGE_ERROR
WITHOUT_A_PLACE = {("DESCRIBE_LOG_DIRS", 1), ("DESCRIBE_LOG_DIRS", 2)}
"""Versions that have a place for errors only beside a directory, which no request names."""


def sample(message: type[Message], version: int) -> Any:
    """A message with one row in each array and a text in each text."""
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
            if (api.key.name, version) not in WITHOUT_A_PLACE:
                yield api, version


@pytest.mark.parametrize(
    ("api", "version"),
    list(versions()),
    ids=lambda it: it.title if isinstance(it, Api) else f"v{it}",
)
def test_a_refusal_says_the_error_where_clients_look_for_it(api: Api, version: int) -> None:
    request = sample(api.request_type, version)
    if api.key in READ_AND_CHANGED:
        answer = sample(api.response_type, version)
        made = changed(answer, PartitionFilter(lambda *_: True, {}), version, CODE)
        assert made is not None
    else:
        made = refusal(request, api.response_type, version, CODE)
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
def test_the_other_topics_of_a_request_are_left_over(key: ApiKey) -> None:
    api, version = APIS[key], min(TOPICS_OF_TWO[key], 12)
    one = sample(api.request_type, version)
    array = "topic_data" if key is ApiKey.PRODUCE else "topics"
    both = one.replace(**{array: [of_topic(one, "a", array), of_topic(one, "b", array)]})
    concerned, rest = PartitionFilter(lambda topic, _: topic == "a", {}).split(both)
    assert [it.name for it in getattr(concerned, array)] == ["a"]
    assert [it.name for it in getattr(rest, array)] == ["b"]
    refused = refusal(concerned, api.response_type, version, CODE)
    served = refusal(rest, api.response_type, version, ErrorCode.NONE)
    assert list(errors_in(joined(refused, served))) == [f"a-0 {CODE.name}"]


def test_partitions_of_one_topic_come_together_again() -> None:
    api, version = APIS[ApiKey.LIST_OFFSETS], 7
    request = sample(api.request_type, version)
    (topic,) = request.topics
    (row,) = topic.partitions
    rows = [row.replace(partition_index=it) for it in range(3)]
    request = request.replace(topics=[topic.replace(partitions=rows)])
    concerned, rest = PartitionFilter(lambda _, number: number == 1, {}).split(request)
    refused = refusal(concerned, api.response_type, version, CODE)
    served = refusal(rest, api.response_type, version, ErrorCode.NONE)
    (answered,) = joined(refused, served).topics  # type: ignore[attr-defined]  # a ListOffsets
    found = {it.partition_index: it.error_code for it in answered.partitions}
    assert found == {0: 0, 1: CODE, 2: 0}


def test_settings_have_names_but_are_no_topics() -> None:
    api = APIS[ApiKey.CREATE_TOPICS]
    request = sample(api.request_type, 7)
    (topic,) = request.topics
    request = request.replace(topics=[topic.replace(assignments=())])
    assert PartitionFilter(lambda topic, _: topic == "t", {}).split(request) == (request, None)
