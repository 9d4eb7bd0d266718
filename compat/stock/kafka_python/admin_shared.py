"""Common commands of the admin clients of all versions of kafka-python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import kafka
from kafka import errors
from kafka.admin import ConfigResourceType
from line_program import Options, Refused

if TYPE_CHECKING:
    from kafka.structs import OffsetAndMetadata, TopicPartition

KINDS = {"topic": ConfigResourceType.TOPIC, "broker": ConfigResourceType.BROKER}


class AdminCommands:
    """Commands to admin clients; `called` maps our field names to those of the library."""

    open: dict[str, Any]
    called: ClassVar[dict[str, str]]

    def open_admin(self, on: str, bootstrap: str, client_id: str, **options: Any) -> None:
        timeout_ms = options["request_timeout_ms"]
        self.open[on] = kafka.KafkaAdminClient(
            bootstrap_servers=bootstrap.split(","),
            client_id=client_id,
            **({"request_timeout_ms": timeout_ms} if timeout_ms else {}),
        )

    def delete_topics(self, on: str, topics: list[str]) -> None:
        self.open[on].delete_topics(topics)

    def list_topics(self, on: str) -> Options:
        return {"topics": self.open[on].list_topics()}

    def describe_topics(self, on: str, topics: list[str]) -> Options:
        found = self.open[on].describe_topics(topics)
        for it in found:
            refuse(it["error_code"])
        return {
            "topics": [
                {
                    "name": it[self.called["name"]],
                    "partitions": list(map(self.partition_entry, it["partitions"])),
                }
                for it in found
            ]
        }

    def partition_entry(self, found: Options) -> Options:
        return {
            "partition": found[self.called["partition"]],
            "leader": found[self.called["leader"]],
            "replicas": list(found[self.called["replicas"]]),
            "in_sync": list(found[self.called["in_sync"]]),
        }

    def describe_cluster(self, on: str) -> Options:
        found = self.open[on].describe_cluster()
        return {
            "cluster_id": found["cluster_id"],
            "controller": found["controller_id"],
            "brokers": [
                {
                    "id": it.get("broker_id", it.get("node_id")),
                    "host": it["host"],
                    "port": it["port"],
                }
                for it in found["brokers"]
            ],
        }


def refuse(code: int, message: str | None = None) -> None:
    if code:
        raise Refused(code, message or errors.for_code(code).__name__)


def offset_entry(place: TopicPartition, found: OffsetAndMetadata) -> Options:
    return {
        "topic": place.topic,
        "partition": place.partition,
        "offset": found.offset if found.offset >= 0 else None,
        "metadata": found.metadata,
    }
