"""ConsumerGroupDescribe: describes consumer groups and their members.

Served versions: 0-1
     0  first version, flexible (KIP-848)
     1  adds member_type (KIP-1099)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.message import (
    INT32,
    STRING,
    Message,
    array,
    boolean,
    int8,
    int16,
    int32,
    nested,
    string,
    uuid,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


class ConsumerGroupDescribeRequest(
    Message, api=ApiKey.CONSUMER_GROUP_DESCRIBE, versions="0-1", flexible="0+"
):
    group_ids: Sequence[str] = array(STRING, "0+")
    include_authorized_operations: bool = boolean("0+")


class TopicPartitions(Message):
    topic_id: bytes = uuid("0+")
    topic_name: str = string("0+")
    partitions: Sequence[int] = array(INT32, "0+")


class Assignment(Message):
    topic_partitions: Sequence[TopicPartitions] = array(TopicPartitions, "0+")


class Member(Message):
    member_id: str = string("0+")
    instance_id: str | None = string("0+", nullable="0+", default=None)
    rack_id: str | None = string("0+", nullable="0+", default=None)
    member_epoch: int = int32("0+")
    client_id: str = string("0+")
    client_host: str = string("0+")
    subscribed_topic_names: Sequence[str] = array(STRING, "0+")
    subscribed_topic_regex: str | None = string("0+", nullable="0+", default=None)
    assignment: Assignment = nested(Assignment, "0+")
    target_assignment: Assignment = nested(Assignment, "0+")
    member_type: int = int8("1+", default=-1, ignorable=True)


class DescribedGroup(Message):
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    group_id: str = string("0+")
    group_state: str = string("0+")
    group_epoch: int = int32("0+")
    assignment_epoch: int = int32("0+")
    assignor_name: str = string("0+")
    members: Sequence[Member] = array(Member, "0+")
    authorized_operations: int = int32("0+", default=-0x80000000)


class ConsumerGroupDescribeResponse(
    Message, api=ApiKey.CONSUMER_GROUP_DESCRIBE, versions="0-1", flexible="0+"
):
    throttle_time_ms: int = int32("0+", default=0)
    groups: Sequence[DescribedGroup] = array(DescribedGroup, "0+")
