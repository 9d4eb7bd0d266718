"""The admin client of kafka-python 3."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from admin_shared import KINDS, AdminCommands, offset_entry, refuse
from kafka import errors
from kafka.admin import ConfigResource
from kafka.protocol.consumer import OffsetSpec
from kafka.structs import OffsetAndMetadata, TopicPartition
from line_program import Options, PartitionKey, Refused

EVERYTHING = "all"
CALLED = {
    "name": "name",
    "partition": "partition_index",
    "leader": "leader_id",
    "replicas": "replica_nodes",
    "in_sync": "isr_nodes",
}


class Administering(AdminCommands):
    """Commands to admin clients."""

    called: ClassVar = CALLED

    # --- topics

    def create_topics(self, on: str, topics: list[Options], validate_only: bool | None) -> None:  # noqa: FBT001 (the protocol's)
        new_topics = {
            it["name"]: {
                "num_partitions": it["partitions"],
                "replication_factor": it["replicas"],
                "configs": it["configs"],
            }
            for it in topics
        }
        self.open[on].create_topics(new_topics, validate_only=bool(validate_only))

    def create_partitions(self, on: str, topic: str, total: int) -> None:
        self.open[on].create_partitions({topic: total})

    # --- configurations

    def describe_configs(self, on: str, kind: str, name: str) -> Options:
        resource = ConfigResource(KINDS[kind], name)
        found = self.open[on].describe_configs([resource], config_filter=EVERYTHING)
        return {
            "configs": {
                key: {"value": it["value"], "is_default": it["config_source"] == "DEFAULT_CONFIG"}
                for key, it in found[kind][name].items()
            }
        }

    def alter_configs(
        self,
        on: str,
        kind: str,
        name: str,
        set: Options | None,  # noqa: A002 (the protocol's)
        unset: list[str] | None,
    ) -> None:
        changes = {**(set or {}), **dict.fromkeys(unset or (), ("delete", None))}
        self._alter(on, kind, name, changes, incremental=True)

    def replace_configs(self, on: str, kind: str, name: str, set: Options | None) -> None:  # noqa: A002 (the protocol's)
        self._alter(on, kind, name, set or {}, incremental=False)

    def _alter(self, on: str, kind: str, name: str, changes: Options, **how: Any) -> None:
        resource = ConfigResource(KINDS[kind], name, changes)
        found = self.open[on].alter_configs([resource], raise_on_unknown=False, **how)
        refuse_text(found[kind][name])

    # --- records

    def delete_records(self, on: str, topic: str, partition: int, before: int) -> Options:
        place = TopicPartition(topic, partition)
        found = self.open[on].delete_records({place: before})
        return {"low_watermark": found[place]["low_watermark"]}

    def list_offsets(self, on: str, topic: str, partition: int, at: int | str) -> Options:
        specs: dict[int | str, Any] = {
            "beginning": OffsetSpec.EARLIEST,
            "end": OffsetSpec.LATEST,
            "max_timestamp": OffsetSpec.MAX_TIMESTAMP,
        }
        place = TopicPartition(topic, partition)
        found = self.open[on].list_partition_offsets({place: specs.get(at, at)})
        offset = found[place].offset
        return {"offset": None if offset < 0 else offset}

    # --- groups

    def list_groups(self, on: str) -> Options:
        return {"groups": [it["group_id"] for it in self.open[on].list_groups()]}

    def describe_group(self, on: str, group: str) -> Options:
        found = self.open[on].describe_groups([group])[group]
        refuse_text(found["error"])
        return {"state": found["group_state"], "members": list(map(member_entry, found["members"]))}

    def group_offsets(self, on: str, group: str) -> Options:
        found = self.open[on].list_group_offsets({group: None})[group]
        return {"offsets": [offset_entry(place, it) for place, it in found.items()]}

    def alter_group_offsets(self, on: str, group: str, offsets: list[Options]) -> None:
        changes = {
            TopicPartition(it["topic"], it["partition"]): OffsetAndMetadata(
                it["offset"], it["metadata"] or "", -1
            )
            for it in offsets
        }
        for error in self.open[on].alter_group_offsets(group, changes).values():
            refuse(error.errno)

    def delete_group_offsets(self, on: str, group: str, partitions: list[PartitionKey]) -> None:
        places = [TopicPartition(*it) for it in partitions]
        for error in self.open[on].delete_group_offsets(group, places).values():
            refuse(error.errno)

    def delete_group(self, on: str, group: str) -> None:
        result = self.open[on].delete_groups([group])[group]
        if result != "OK":
            raise Refused(getattr(errors, result).errno, result)

    # --- transactions

    def list_transactions(self, on: str) -> Options:
        found = self.open[on].list_transactions()
        return {
            "transactions": [
                {"transactional_id": it.transactional_id, "state": it.state.value}
                for listed in found.values()
                for it in listed
            ]
        }

    def describe_transaction(self, on: str, transactional_id: str) -> Options:
        found = self.open[on].describe_transactions([transactional_id])[transactional_id]
        places = sorted([it.topic, it.partition] for it in found.topic_partitions)
        return {"state": found.state.value, "partitions": places}


def refuse_text(result: str | None) -> None:
    """`OK`, or an error as text: `[Error 40] InvalidConfigurationError: …`."""
    if result in (None, "OK"):
        return
    number = re.match(r"\[Error (-?\d+)\]", result)
    raise Refused(int(number[1]) if number else "CLIENT", result)


def member_entry(found: Options) -> Options:
    assigned = found["member_assignment"] or {}
    return {
        "client_id": found["client_id"],
        "instance_id": found["group_instance_id"],
        "assignment": [
            [it["topic"], partition]
            for it in assigned.get("assigned_partitions", ())
            for partition in it["partitions"]
        ],
    }
