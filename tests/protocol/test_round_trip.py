"""What is written is read back equal, in every version, with all that a version can carry."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING

import pytest

from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.compiler import UnsupportedField, decode, encode, reader_of
from pykbroker_protocol.frame import body_position, read_request_header, write_request
from pykbroker_protocol.internal_topics.consumer_groups import ConsumerGroupMemberMetadataValue
from pykbroker_protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from pykbroker_protocol.messages.heartbeat import HeartbeatResponse
from pykbroker_protocol.messages.offset_fetch import OffsetFetchRequest
from pykbroker_protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from pykbroker_protocol.writer_source import RECORDS_COPIED_MAX
from tests.protocol.random_messages import DECLARED, random_message, versions_of

if TYPE_CHECKING:
    from pykbroker_protocol.message import Field, Message

EACH_MESSAGE = pytest.mark.parametrize("message", DECLARED, ids=lambda it: it.__name__)


@EACH_MESSAGE
def test_a_random_message_is_read_back_equal_in_every_version(message: type[Message]) -> None:
    for version in versions_of(message):
        chance = Random(f"{message.__name__} {version}")
        for _ in range(6):
            value = random_message(message, version, chance)
            data = encode(value, version)
            again, end = reader_of(message, version)(memoryview(b"xyz" + data + b"behind"), 3)
            assert again == value
            assert end == len(data) + 3
            assert encode(again, version) == data


@EACH_MESSAGE
def test_a_message_without_values_is_read_back_equal_in_every_version(
    message: type[Message],
) -> None:
    for version in versions_of(message):
        assert decode(message, version, encode(message(), version)) == message()


@EACH_MESSAGE
def test_a_field_that_an_older_version_cannot_carry_is_refused_unless_it_may_be_lost(
    message: type[Message],
) -> None:
    for field in message.fields:
        lacking = [it for it in versions_of(message) if it not in field.versions]
        if not lacking:
            continue
        value = message(**{field.name: something_else_than_the_default(field)})
        for version in lacking:
            if field.ignorable:
                assert decode(message, version, encode(value, version)) == message()
            else:
                with pytest.raises(UnsupportedField, match=f"{message.__name__}.{field.name}"):
                    encode(value, version)


@EACH_MESSAGE
def test_a_value_of_one_version_is_written_in_another_or_refused(message: type[Message]) -> None:
    for version in versions_of(message):
        value = random_message(message, version, Random(version))
        for other in versions_of(message):
            with suppress(UnsupportedField):
                encode(value, other)


def test_a_null_is_refused_in_a_version_that_knows_no_null() -> None:
    with pytest.raises(UnsupportedField, match="null as topics"):
        encode(OffsetFetchRequest(group_id="fleet", topics=None), 1)


def test_a_null_struct_among_the_tags_is_told_by_another_byte_than_in_the_row() -> None:
    member = ConsumerGroupMemberMetadataValue(
        instance_id=None,
        rack_id=None,
        client_id="",
        client_host="",
        subscribed_topic_names=(),
        subscribed_topic_regex=None,
        server_assignor=None,
        classic_member_metadata=None,
    )
    assert encode(member, 0).endswith(b"\x01\x00\x01\x00")  # one tag: 0, of one byte: 0
    assert decode(ConsumerGroupMemberMetadataValue, 0, encode(member, 0)) == member
    partitions = DescribeTopicPartitionsRequest(topics=(), cursor=None)
    assert encode(partitions, 0).endswith(b"\xff\x00")  # -1, then no tags


def test_unknown_tags_come_back_in_the_order_of_their_numbers() -> None:
    value = HeartbeatResponse(error_code=0).replace(unknown_tags=((7, b"seven"), (3, b"three")))
    again = decode(HeartbeatResponse, 4, encode(value, 4))
    assert again.unknown_tags == ((3, b"three"), (7, b"seven"))


def test_a_message_is_replaced_in_the_fields_that_it_has() -> None:
    topic = TopicProduceData(name="trucks", topic_id=b"i" * 16, partition_data=[])
    assert topic.replace(name="cars") == TopicProduceData(
        name="cars", topic_id=b"i" * 16, partition_data=[]
    )
    assert topic.name == "trucks"
    with pytest.raises(AttributeError):
        topic.replace(nickname="cars")


def test_large_records_travel_as_they_lie_and_small_ones_are_copied() -> None:
    small, large = b"s" * RECORDS_COPIED_MAX, memoryview(b"l" * (RECORDS_COPIED_MAX + 1))
    partitions = [PartitionProduceData(index=it, records=(small, large)[it % 2]) for it in range(4)]
    topic = TopicProduceData(name="trucks", partition_data=partitions)
    value = ProduceRequest(acks=-1, timeout_ms=1, topic_data=[topic])
    for version in versions_of(ProduceRequest):
        if version > 12:
            value = value.replace(topic_data=[topic.replace(name="", topic_id=b"i" * 16)])
        buffers = write_request(value, version, 7, "driver")
        assert sum(it is large for it in buffers) == 2
        frame = b"".join(buffers)
        header = read_request_header(frame)
        assert header[:4] == (ApiKey.PRODUCE, version, 7, "driver")
        assert (
            decode(ProduceRequest, version, frame, body_position(header, frame, ProduceRequest))
            == value
        )


def something_else_than_the_default(field: Field) -> object:
    if field.is_array:
        return [field.struct() if field.struct else element(field)]
    if field.struct is not None:
        inner = field.struct.fields[0]
        return field.struct(**{inner.name: something_else_than_the_default(inner)})
    return element(field)


def element(field: Field) -> object:
    assert field.kind is not None
    zero = field.kind.zero
    if isinstance(zero, bool):
        return not field.default
    if isinstance(zero, int | float):
        return type(zero)(41)
    if isinstance(zero, str):
        return "something"
    return b"sixteen bytes it"
