"""Metadata records about topics, partitions and dynamic configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.message import (
    INT32,
    UUID,
    Message,
    array,
    int8,
    int32,
    string,
    uuid,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


class TopicRecord(Message, record_type=2, versions="0", flexible="0+"):
    name: str = string("0+")
    topic_id: bytes = uuid("0+")


class RemoveTopicRecord(Message, record_type=9, versions="0", flexible="0+"):
    topic_id: bytes = uuid("0+")


class PartitionRecord(Message, record_type=3, versions="0-2", flexible="0+"):
    partition_id: int = int32("0+", default=-1)
    topic_id: bytes = uuid("0+")
    replicas: Sequence[int] = array(INT32, "0+")
    isr: Sequence[int] = array(INT32, "0+")
    removing_replicas: Sequence[int] = array(INT32, "0+")
    adding_replicas: Sequence[int] = array(INT32, "0+")
    leader: int = int32("0+", default=-1)
    leader_recovery_state: int = int8("0+", tag=0, default=0)
    leader_epoch: int = int32("0+", default=-1)
    partition_epoch: int = int32("0+", default=-1)
    directories: Sequence[bytes] = array(UUID, "1+", default=())
    eligible_leader_replicas: Sequence[int] | None = array(
        INT32, "2+", nullable="2+", tag=1, default=None
    )
    last_known_elr: Sequence[int] | None = array(INT32, "2+", nullable="2+", tag=2, default=None)


class PartitionChangeRecord(Message, record_type=5, versions="0-2", flexible="0+"):
    partition_id: int = int32("0+", default=-1)
    topic_id: bytes = uuid("0+")
    isr: Sequence[int] | None = array(INT32, "0+", nullable="0+", tag=0, default=None)
    leader: int = int32("0+", tag=1, default=-2)
    replicas: Sequence[int] | None = array(INT32, "0+", nullable="0+", tag=2, default=None)
    removing_replicas: Sequence[int] | None = array(INT32, "0+", nullable="0+", tag=3, default=None)
    adding_replicas: Sequence[int] | None = array(INT32, "0+", nullable="0+", tag=4, default=None)
    leader_recovery_state: int = int8("0+", tag=5, default=-1)
    directories: Sequence[bytes] | None = array(UUID, "1+", nullable="1+", tag=8, default=None)
    eligible_leader_replicas: Sequence[int] | None = array(
        INT32, "2+", nullable="2+", tag=6, default=None
    )
    last_known_elr: Sequence[int] | None = array(INT32, "2+", nullable="2+", tag=7, default=None)


class ClearElrRecord(Message, record_type=28, versions="0", flexible="0+"):
    topic_name: str = string("0+")


class ConfigRecord(Message, record_type=4, versions="0", flexible="0+"):
    resource_type: int = int8("0+")
    resource_name: str = string("0+")
    name: str = string("0+")
    value: str | None = string("0+", nullable="0+")
