"""Large messages are read and written by generators that yield after each slice of elements."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.compiler import (
    SLICE_ELEMENTS,
    MalformedMessage,
    TooManyElements,
    decode,
    encode,
    sliced_reader_of,
    sliced_writer_of,
)
from pykbroker_protocol.frame import write_response, write_response_in_slices
from pykbroker_protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.protocol.random_messages import DECLARED, random_message, versions_of

if TYPE_CHECKING:
    from collections.abc import Generator

    from pykbroker_protocol.compiler import Buffer
    from pykbroker_protocol.message import Message

T = TypeVar("T")


def all_of(slices: Generator[None, None, T]) -> tuple[T, int]:
    """Returns the result of a generator and the number of yields."""
    turns = 0
    while True:
        try:
            next(slices)
        except StopIteration as done:
            return done.value, turns
        turns += 1


@pytest.mark.parametrize("message", DECLARED, ids=lambda it: it.__name__)
def test_sliced_and_plain_readers_and_writers_agree(message: type[Message]) -> None:
    for version in versions_of(message):
        value = random_message(message, version, Random(f"{message.__name__} {version}"))
        parts: list[Buffer] = []
        last, _ = all_of(sliced_writer_of(message, version)(value, bytearray(), parts))
        data = b"".join((*parts, last))
        assert data == encode(value, version)
        (again, end), _ = all_of(sliced_reader_of(message, version)(data, 0))
        assert again == value
        assert end == len(data)


def asked(count: int) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=f"t{n}") for n in range(count)])


def test_the_sliced_reader_yields_after_each_slice() -> None:
    request = asked(4 * SLICE_ELEMENTS)
    data = encode(request, 12)
    (read, _), turns = all_of(sliced_reader_of(MetadataRequest, 12)(data, 0))
    assert read == decode(MetadataRequest, 12, data)
    assert turns == 3


def answered(topics: int, partitions: int) -> MetadataResponse:
    rows = [
        MetadataResponsePartition(
            error_code=0, partition_index=n, leader_id=1, replica_nodes=(1,), isr_nodes=(1,)
        )
        for n in range(partitions)
    ]
    topic = MetadataResponseTopic(error_code=0, name="t", partitions=rows)
    return MetadataResponse(brokers=(), topics=[topic] * topics)


def test_the_sliced_writer_counts_elements_of_nested_arrays() -> None:
    response = answered(10, SLICE_ELEMENTS)
    parts, turns = all_of(write_response_in_slices(response, 12, 7))
    assert b"".join(parts) == b"".join(write_response(response, 12, 7))
    assert turns == 10


def test_the_sliced_writer_bounds_the_size_of_a_part() -> None:
    parts, _ = all_of(write_response_in_slices(answered(100, SLICE_ELEMENTS), 12, 7))
    assert max(map(len, parts)) < 200_000


def test_the_sliced_reader_raises_the_errors_of_the_plain_reader() -> None:
    data = encode(asked(3), 12)
    with pytest.raises(MalformedMessage, match="MetadataRequest version 12"):
        all_of(sliced_reader_of(MetadataRequest, 12)(data[:-4], 0))
    with pytest.raises(TooManyElements, match="topics"):
        all_of(sliced_reader_of(MetadataRequest, 12)(data, 0, 2))


def test_sliced_api_versions_responses_use_header_version_0() -> None:
    message: Any = next(it for it in DECLARED if it.__name__ == "ApiVersionsResponse")
    assert message.api == ApiKey.API_VERSIONS
    parts, _ = all_of(write_response_in_slices(message(), 4, 7))
    assert b"".join(parts) == b"".join(write_response(message(), 4, 7))
