"""The admin client of confluent-kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import confluent_kafka
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    NewPartitions,
    NewTopic,
)

if TYPE_CHECKING:
    from line_program import Options

CALL_SECONDS = 15.0
KINDS = {"topic": ConfigResource.Type.TOPIC, "broker": ConfigResource.Type.BROKER}


class Administering:
    """Commands to admin clients."""

    open: dict[str, Any]

    def open_admin(self, on: str, bootstrap: str, client_id: str, **_: Any) -> None:
        self.open[on] = AdminClient({"bootstrap.servers": bootstrap, "client.id": client_id})

    # --- topics

    def create_topics(self, on: str, topics: list[Options], validate_only: bool | None) -> None:  # noqa: FBT001 (the protocol's)
        new_topics = [
            NewTopic(it["name"], it["partitions"], it["replicas"], config=it["configs"])
            for it in topics
        ]
        wait(self.open[on].create_topics(new_topics, validate_only=bool(validate_only)))

    def delete_topics(self, on: str, topics: list[str]) -> None:
        wait(self.open[on].delete_topics(topics))

    def list_topics(self, on: str) -> Options:
        return {"topics": list(self.open[on].list_topics(timeout=CALL_SECONDS).topics)}

    def describe_topics(self, on: str, topics: list[str]) -> Options:
        found = self.open[on].list_topics(timeout=CALL_SECONDS).topics
        return {"topics": [topic_entry(found[name]) for name in topics if name in found]}

    def create_partitions(self, on: str, topic: str, total: int) -> None:
        wait(self.open[on].create_partitions([NewPartitions(topic, total)]))

    # --- configurations

    def describe_configs(self, on: str, kind: str, name: str) -> Options:
        (found,) = wait(self.open[on].describe_configs([ConfigResource(KINDS[kind], name)]))
        return {
            "configs": {
                key: {"value": it.value, "is_default": bool(it.is_default)}
                for key, it in found.items()
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
        from confluent_kafka.admin import (  # noqa: PLC0415 (not in every version)
            AlterConfigOpType,
            ConfigEntry,
        )

        changes = [
            ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
            for key, value in (set or {}).items()
        ]
        changes += [
            ConfigEntry(key, None, incremental_operation=AlterConfigOpType.DELETE)
            for key in unset or ()
        ]
        resource = ConfigResource(KINDS[kind], name, incremental_configs=changes)
        wait(self.open[on].incremental_alter_configs([resource]))

    def replace_configs(self, on: str, kind: str, name: str, set: Options | None) -> None:  # noqa: A002 (the protocol's)
        resource = ConfigResource(KINDS[kind], name, set_config=set or {})
        wait(self.open[on].alter_configs([resource]))

    # --- records

    def delete_records(self, on: str, topic: str, partition: int, before: int) -> Options:
        (found,) = wait(self.open[on].delete_records([TopicPartition(topic, partition, before)]))
        return {"low_watermark": found.low_watermark}

    def list_offsets(self, on: str, topic: str, partition: int, at: int | str) -> Options:
        from confluent_kafka.admin import OffsetSpec  # noqa: PLC0415 (not in every version)

        specs = {
            "beginning": OffsetSpec.earliest,
            "end": OffsetSpec.latest,
            "max_timestamp": OffsetSpec.max_timestamp,
        }
        spec = OffsetSpec.for_timestamp(at) if isinstance(at, int) else specs[at]()  # type: ignore[no-untyped-call]  # has no types
        (found,) = wait(self.open[on].list_offsets({TopicPartition(topic, partition): spec}))
        return {"offset": None if found.offset < 0 else found.offset}

    # --- the cluster

    def describe_cluster(self, on: str) -> Options:
        found = self.open[on].list_topics(timeout=CALL_SECONDS)
        return {
            "cluster_id": found.cluster_id,
            "controller": found.controller_id,
            "brokers": [
                {"id": it.id, "host": it.host, "port": it.port} for it in found.brokers.values()
            ],
        }

    # --- groups

    def list_groups(self, on: str) -> Options:
        found = self.open[on].list_consumer_groups(request_timeout=CALL_SECONDS).result()
        for error in found.errors:
            raise error
        return {"groups": [it.group_id for it in found.valid]}

    def describe_group(self, on: str, group: str) -> Options:
        (found,) = wait(self.open[on].describe_consumer_groups([group]))
        return {"state": found.state.name, "members": list(map(member_entry, found.members))}

    def group_offsets(self, on: str, group: str) -> Options:
        asked = confluent_kafka.ConsumerGroupTopicPartitions(group)
        (found,) = wait(self.open[on].list_consumer_group_offsets([asked]))
        return {"offsets": list(map(offset_entry, found.topic_partitions))}

    def alter_group_offsets(self, on: str, group: str, offsets: list[Options]) -> None:
        places = [TopicPartition(it["topic"], it["partition"], it["offset"]) for it in offsets]
        asked = confluent_kafka.ConsumerGroupTopicPartitions(group, places)
        (found,) = wait(self.open[on].alter_consumer_group_offsets([asked]))
        for it in found.topic_partitions:
            offset_entry(it)

    def delete_group(self, on: str, group: str) -> None:
        wait(self.open[on].delete_consumer_groups([group]))


def wait(futures: dict[Any, Any]) -> list[Any]:
    return [it.result(CALL_SECONDS) for it in futures.values()]


def topic_entry(found: Any) -> Options:
    if found.error is not None:
        raise KafkaException(found.error)
    partitions = [
        {"partition": it.id, "leader": it.leader, "replicas": it.replicas, "in_sync": it.isrs}
        for it in found.partitions.values()
    ]
    return {"name": found.topic, "partitions": partitions}


def member_entry(found: Any) -> Options:
    places = found.assignment.topic_partitions if found.assignment else []
    return {
        "client_id": found.client_id,
        "instance_id": found.group_instance_id,
        "assignment": sorted([it.topic, it.partition] for it in places),
    }


def offset_entry(found: TopicPartition) -> Options:
    if found.error is not None:
        raise KafkaException(found.error)
    return {
        "topic": found.topic,
        "partition": found.partition,
        "offset": found.offset if found.offset >= 0 else None,
        "metadata": getattr(found, "metadata", None),
    }
