"""Encoded messages are decoded to equal messages in each version."""

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
def test_a_random_message_is_decoded_to_an_equal_message_in_each_version(
    message: type[Message],
) -> None:
    for version in versions_of(message):
        random = Random(f"{message.__name__} {version}")
        for _ in range(6):
            value = random_message(message, version, random)
            data = encode(value, version)
            again, end = reader_of(message, version)(memoryview(b"xyz" + data + b"behind"), 3)
            assert again == value
            assert end == len(data) + 3
            assert encode(again, version) == data


@EACH_MESSAGE
def test_a_default_message_is_decoded_to_an_equal_message_in_each_version(
    message: type[Message],
) -> None:
    for version in versions_of(message):
        assert decode(message, version, encode(message(), version)) == message()


@EACH_MESSAGE
def test_a_field_that_a_version_lacks_is_rejected_unless_ignorable(
    message: type[Message],
) -> None:
    for field in message.fields:
        lacking = [it for it in versions_of(message) if it not in field.versions]
        if not lacking:
            continue
        value = message(**{field.name: value_other_than_default(field)})
        for version in lacking:
            if field.ignorable:
                assert decode(message, version, encode(value, version)) == message()
            else:
                with pytest.raises(UnsupportedField, match=f"{message.__name__}.{field.name}"):
                    encode(value, version)


@EACH_MESSAGE
def test_a_message_of_one_version_is_encoded_in_another_or_rejected(message: type[Message]) -> None:
    for version in versions_of(message):
        value = random_message(message, version, Random(version))
        for other in versions_of(message):
            with suppress(UnsupportedField):
                encode(value, other)


def test_null_is_rejected_in_a_version_where_the_field_is_not_nullable() -> None:
    with pytest.raises(UnsupportedField, match="null as topics"):
        encode(OffsetFetchRequest(group_id="fleet", topics=None), 1)


def test_a_null_struct_is_encoded_as_0_in_a_tag_and_as_minus_1_elsewhere() -> None:
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


def test_unknown_tags_are_encoded_in_ascending_order() -> None:
    value = HeartbeatResponse(error_code=0).replace(unknown_tags=((7, b"seven"), (3, b"three")))
    again = decode(HeartbeatResponse, 4, encode(value, 4))
    assert again.unknown_tags == ((3, b"three"), (7, b"seven"))


def test_replace_changes_only_declared_fields() -> None:
    topic = TopicProduceData(name="trucks", topic_id=b"i" * 16, partition_data=[])
    assert topic.replace(name="cars") == TopicProduceData(
        name="cars", topic_id=b"i" * 16, partition_data=[]
    )
    assert topic.name == "trucks"
    with pytest.raises(AttributeError):
        topic.replace(nickname="cars")


def test_large_records_are_not_copied_into_the_frame() -> None:
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


def value_other_than_default(field: Field) -> object:
    if field.is_array:
        return [field.struct() if field.struct else element(field)]
    if field.struct is not None:
        inner = field.struct.fields[0]
        return field.struct(**{inner.name: value_other_than_default(inner)})
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
