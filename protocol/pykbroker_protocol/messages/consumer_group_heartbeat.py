"""ConsumerGroupHeartbeat: keeps a member of a consumer group alive and reconciles its assignment.

Served versions: 0-1
     0  first version, flexible (KIP-848)
     1  subscribed_topic_regex (KIP-848); the client generates the member id (KIP-1082)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.message import (
    INT32,
    STRING,
    Message,
    array,
    int16,
    int32,
    nested,
    string,
    uuid,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


class TopicPartitions(Message):
    topic_id: bytes = uuid("0+")
    partitions: Sequence[int] = array(INT32, "0+")


class ConsumerGroupHeartbeatRequest(
    Message, api=ApiKey.CONSUMER_GROUP_HEARTBEAT, versions="0-1", flexible="0+"
):
    group_id: str = string("0+")
    member_id: str = string("0+")
    member_epoch: int = int32("0+")
    instance_id: str | None = string("0+", nullable="0+", default=None)
    rack_id: str | None = string("0+", nullable="0+", default=None)
    rebalance_timeout_ms: int = int32("0+", default=-1)
    subscribed_topic_names: Sequence[str] | None = array(STRING, "0+", nullable="0+", default=None)
    subscribed_topic_regex: str | None = string("1+", nullable="1+", default=None)
    server_assignor: str | None = string("0+", nullable="0+", default=None)
    topic_partitions: Sequence[TopicPartitions] | None = array(
        TopicPartitions, "0+", nullable="0+", default=None
    )


class Assignment(Message):
    topic_partitions: Sequence[TopicPartitions] = array(TopicPartitions, "0+")


class ConsumerGroupHeartbeatResponse(
    Message, api=ApiKey.CONSUMER_GROUP_HEARTBEAT, versions="0-1", flexible="0+"
):
    throttle_time_ms: int = int32("0+", default=0)
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    member_id: str | None = string("0+", nullable="0+", default=None)
    member_epoch: int = int32("0+")
    heartbeat_interval_ms: int = int32("0+")
    assignment: Assignment | None = nested(Assignment, "0+", nullable="0+", default=None)
