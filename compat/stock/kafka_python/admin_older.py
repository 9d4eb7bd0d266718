"""The admin client of kafka-python 2.0, which returns raw protocol responses of many calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from admin_shared import KINDS, AdminCommands, offset_entry, refuse
from kafka.admin import ConfigResource, NewPartitions, NewTopic
from kafka.coordinator.protocol import ConsumerProtocolMemberAssignment

if TYPE_CHECKING:
    from line_program import Options

DEFAULT_SOURCE = 5
CALLED = {
    "name": "topic",
    "partition": "partition",
    "leader": "leader",
    "replicas": "replicas",
    "in_sync": "isr",
}


class Administering(AdminCommands):
    """Commands to admin clients."""

    called: ClassVar = CALLED

    # --- topics

    def create_topics(self, on: str, topics: list[Options], validate_only: bool | None) -> None:  # noqa: FBT001 (the protocol's)
        new_topics = [
            NewTopic(it["name"], it["partitions"], it["replicas"], topic_configs=it["configs"])
            for it in topics
        ]
        self.open[on].create_topics(new_topics, validate_only=bool(validate_only))

    def create_partitions(self, on: str, topic: str, total: int) -> None:
        self.open[on].create_partitions({topic: NewPartitions(total)})

    # --- configurations

    def describe_configs(self, on: str, kind: str, name: str) -> Options:
        (response,) = self.open[on].describe_configs([ConfigResource(KINDS[kind], name)])
        ((code, message, _, _, entries),) = response.resources
        refuse(code, message)
        return {
            "configs": {
                key: {"value": value, "is_default": source == DEFAULT_SOURCE}
                for key, value, _, source, *_ in entries
            }
        }

    def replace_configs(self, on: str, kind: str, name: str, set: Options | None) -> None:  # noqa: A002 (the protocol's)
        response = self.open[on].alter_configs([ConfigResource(KINDS[kind], name, set or {})])
        for code, message, *_ in response.resources:
            refuse(code, message)

    # --- groups

    def list_groups(self, on: str) -> Options:
        return {"groups": [name for name, _ in self.open[on].list_consumer_groups()]}

    def describe_group(self, on: str, group: str) -> Options:
        (found,) = self.open[on].describe_consumer_groups([group])
        refuse(found.error_code)
        return {"state": found.state, "members": list(map(member_entry, found.members))}

    def group_offsets(self, on: str, group: str) -> Options:
        found = self.open[on].list_consumer_group_offsets(group)
        return {"offsets": [offset_entry(place, it) for place, it in found.items()]}

    def delete_group(self, on: str, group: str) -> None:
        ((_, error),) = self.open[on].delete_consumer_groups([group])
        refuse(error.errno)


def member_entry(found: Any) -> Options:
    assigned = found.member_assignment
    is_known = isinstance(assigned, ConsumerProtocolMemberAssignment)
    return {
        "client_id": found.client_id,
        "instance_id": None,
        "assignment": [
            [topic, partition]
            for topic, partitions in (assigned.assignment if is_known else ())
            for partition in partitions
        ],
    }
