"""A member of a consumer group (KIP-848) that sends single heartbeats."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from pykbroker_protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from pykbroker_protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from tests.apis.transcript import READY_SECONDS_MAX

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.apis.groups.transcript import Group
    from tests.apis.transcript import Topic

LEAVING = -1
LEAVING_FOR_A_WHILE = -2
LONG_MS = 60_000

Owned = dict[bytes, list[int]]


class Consumer:
    """A group member that owns its last assignment, as if it revoked partitions immediately."""

    def __init__(
        self, group: Group, name: str, *topics: Topic, instance: str | None = None
    ) -> None:
        self.group = group
        self.id = name
        self.name = name
        self.instance = instance
        self.generation = 0
        self.topics = topics
        self.owned: Owned = {}
        self.wire = group.broker.new_wire(name)

    def joining(self, **more: Any) -> ConsumerGroupHeartbeatRequest:
        """Returns a heartbeat with all fields."""
        return ConsumerGroupHeartbeatRequest(
            **{
                "group_id": self.group.id,
                "member_id": self.id,
                "member_epoch": 0,
                "instance_id": self.instance,
                "rebalance_timeout_ms": LONG_MS,
                "subscribed_topic_names": [it.name for it in self.topics],
                "topic_partitions": (),
                **more,
            }
        )

    def living(self, **more: Any) -> ConsumerGroupHeartbeatRequest:
        """Returns a minimal heartbeat."""
        return ConsumerGroupHeartbeatRequest(
            **{
                "group_id": self.group.id,
                "member_id": self.id,
                "member_epoch": self.generation,
                "instance_id": self.instance,
                **more,
            }
        )

    def join(self, version: int = 1, *, note: str = "", **more: Any) -> Any:
        return self.ask(self.joining(**more), version, f"joins {note}")

    def beat(self, version: int = 1, *, note: str = "", **more: Any) -> Any:
        return self.ask(self.living(**more), version, note)

    def leave(self, *, epoch: int = LEAVING, note: str = "", **more: Any) -> Any:
        return self.ask(self.living(member_epoch=epoch, **more), 1, f"leaves {note}")

    def ask(self, request: ConsumerGroupHeartbeatRequest, version: int, note: str) -> Any:
        self.wire.send(request, version)
        note_text = f"{self.name}{' ' if note else ''}{note}"
        return self.learn(self.group.broker.hear(self.wire, request, version, note_text))

    def quietly(self, request: ConsumerGroupHeartbeatRequest) -> Any:
        return self.learn(self.wire.ask(request, 1))

    def learn(self, answer: Any) -> Any:
        if answer is not None and not answer.error_code:
            self.id = answer.member_id or self.id
            self.generation = answer.member_epoch
            if answer.assignment is not None:
                shown = answer.assignment.topic_partitions
                self.owned = {bytes(it.topic_id): list(it.partitions) for it in shown}
        return answer

    @property
    def holds(self) -> list[TopicPartitions]:
        return holding(self.owned)


def holding(owned: Mapping[bytes, Sequence[int]]) -> list[TopicPartitions]:
    return [
        TopicPartitions(topic_id=topic_id, partitions=partitions)
        for topic_id, partitions in owned.items()
    ]


def describe(group: Group, version: int = 1, *, note: str = "", permitted: bool = False) -> None:
    request = ConsumerGroupDescribeRequest(
        group_ids=[group.id], include_authorized_operations=permitted
    )
    group.broker.ask(request, version, note=note)


def settle(*consumers: Consumer) -> None:
    """Sends unrecorded heartbeats until all members have their target assignment."""
    group = consumers[0].group
    request = ConsumerGroupDescribeRequest(
        group_ids=[group.id], include_authorized_operations=False
    )
    deadline = time.monotonic() + READY_SECONDS_MAX
    while True:
        for it in consumers:
            it.quietly(it.living(topic_partitions=it.holds))
        (found,) = group.broker.quietly(request, 1).groups
        is_known = all(member.member_epoch == found.group_epoch for member in found.members)
        if found.group_state == "Stable" and is_known:
            return
        assert time.monotonic() < deadline, found
        time.sleep(0.05)


def until_target_is_of(group: Group, members: int, alive: Consumer) -> None:
    """Waits until the assignment for a number of members is computed."""
    request = ConsumerGroupDescribeRequest(
        group_ids=[group.id], include_authorized_operations=False
    )
    deadline = time.monotonic() + READY_SECONDS_MAX
    while True:
        (found,) = group.broker.quietly(request, 1).groups
        if found.assignment_epoch == found.group_epoch and len(found.members) == members:
            return
        assert time.monotonic() < deadline, found
        alive.quietly(alive.living())
        time.sleep(0.05)
