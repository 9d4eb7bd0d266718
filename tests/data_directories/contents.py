"""Reads everything that a broker serves, as values that compare equal between versions."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource, ResourceType

if TYPE_CHECKING:
    from confluent_kafka import Message

POLL_SECONDS = 60
SHORT_BYTES = 40  # longer keys and values are compared by their hash


def contents(bootstrap: str, groups: list[str]) -> dict[str, Any]:
    """Returns topics with their configuration and records, and the committed offsets of groups."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    metadata = admin.list_topics(timeout=POLL_SECONDS)
    names = sorted(name for name in metadata.topics if not name.startswith("__"))
    partitions = {name: sorted(metadata.topics[name].partitions) for name in names}
    return {
        "cluster": admin.describe_cluster().result(POLL_SECONDS).cluster_id,
        "topics": {
            name: {
                "configuration": configuration(admin, name),
                "partitions": [
                    {
                        "read_uncommitted": read(bootstrap, name, partition, "read_uncommitted"),
                        "read_committed": read(bootstrap, name, partition, "read_committed"),
                    }
                    for partition in partitions[name]
                ],
            }
            for name in names
        },
        "groups": {group: committed(admin, group) for group in groups},
    }


def configuration(admin: AdminClient, topic: str) -> dict[str, str | None]:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    (described,) = admin.describe_configs([resource]).values()
    entries = described.result(POLL_SECONDS).values()
    dynamic = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    return {it.name: it.value for it in entries if it.source == dynamic}


def committed(admin: AdminClient, group: str) -> list[list[Any]]:
    asked = [ConsumerGroupTopicPartitions(group)]
    (answer,) = admin.list_consumer_group_offsets(asked).values()
    offsets = answer.result(POLL_SECONDS).topic_partitions
    return sorted([it.topic, it.partition, it.offset, it.metadata] for it in offsets)


def read(bootstrap: str, topic: str, partition: int, isolation: str) -> list[list[Any]]:
    """Returns the records of a partition up to the end that the broker reports."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "contents",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, partition)])
    records = []
    try:
        while True:
            message = consumer.poll(POLL_SECONDS)
            assert message is not None, f"{topic}-{partition}: no end within {POLL_SECONDS} s"
            error = message.error()
            if error is None:
                records.append(as_values(message))
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                return records
    finally:
        consumer.close()


def as_values(message: Message) -> list[Any]:
    headers = [[name, short(value)] for name, value in list(message.headers() or [])]
    key, value = short(message.key()), short(message.value())
    return [message.offset(), *message.timestamp(), key, value, headers]


def short(found: bytes | str | None) -> str | None:
    if found is None:
        return None
    whole = found.encode() if isinstance(found, str) else found
    if len(whole) <= SHORT_BYTES:
        return whole.decode("latin-1")
    return f"{len(whole)} bytes, sha256 {hashlib.sha256(whole).hexdigest()}"
