"""The admin client of aiokafka, which returns raw protocol responses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import for_code
from aiokafka.structs import TopicPartition
from line_program import Options, Refused

try:
    from aiokafka.admin import NewPartitions, NewTopic
    from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
    from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment
except ImportError:  # before 0.9 in kafka-python
    from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic
    from kafka.coordinator.protocol import ConsumerProtocolMemberAssignment

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

KINDS = {"topic": ConfigResourceType.TOPIC, "broker": ConfigResourceType.BROKER}
DEFAULT_SOURCE = 5


class Admin:
    """An admin client with the same `stop` as producers and consumers."""

    def __init__(self, **settings: Any) -> None:
        self.client = AIOKafkaAdminClient(**settings)

    async def stop(self) -> None:
        await self.client.close()


class Administering:
    """Commands to admin clients."""

    open: dict[str, Any]

    def wait(self, what: Coroutine[Any, Any, Any]) -> Any:
        raise NotImplementedError

    def open_admin(self, on: str, bootstrap: str, client_id: str, **options: Any) -> None:
        timeout_ms = options["request_timeout_ms"]

        async def start() -> Admin:
            opened = Admin(
                bootstrap_servers=bootstrap,
                client_id=client_id,
                **({"request_timeout_ms": timeout_ms} if timeout_ms else {}),
            )
            await opened.client.start()
            return opened

        self.open[on] = self.wait(start())

    # --- topics

    def create_topics(self, on: str, topics: list[Options], validate_only: bool | None) -> None:  # noqa: FBT001 (the protocol's)
        new_topics = [
            NewTopic(it["name"], it["partitions"], it["replicas"], topic_configs=it["configs"])
            for it in topics
        ]
        self._asked(
            self.open[on].client.create_topics(new_topics, validate_only=bool(validate_only))
        )

    def delete_topics(self, on: str, topics: list[str]) -> None:
        response = self.wait(self.open[on].client.delete_topics(topics))
        for _, code in response.topic_error_codes:
            refuse(code)

    def list_topics(self, on: str) -> Options:
        return {"topics": list(self.wait(self.open[on].client.list_topics()))}

    def describe_topics(self, on: str, topics: list[str]) -> Options:
        found = self.wait(self.open[on].client.describe_topics(topics))
        for it in found:
            refuse(it["error_code"])
        return {
            "topics": [
                {"name": it["topic"], "partitions": [partition_entry(p) for p in it["partitions"]]}
                for it in found
            ]
        }

    def create_partitions(self, on: str, topic: str, total: int) -> None:
        self._asked(self.open[on].client.create_partitions({topic: NewPartitions(total)}))

    # --- configurations

    def describe_configs(self, on: str, kind: str, name: str) -> Options:
        responses = self.wait(self.open[on].client.describe_configs([resource(kind, name)]))
        ((code, message, _, _, entries),) = (
            it for response in responses for it in response.resources
        )
        refuse(code, message)
        return {
            "configs": {
                key: {"value": value, "is_default": source == DEFAULT_SOURCE}
                for key, value, _, source, *_ in entries
            }
        }

    def replace_configs(self, on: str, kind: str, name: str, set: Options | None) -> None:  # noqa: A002 (the protocol's)
        changed = resource(kind, name, set or {})
        for response in self.wait(self.open[on].client.alter_configs([changed])):
            for code, message, *_ in response.resources:
                refuse(code, message)

    # --- records

    def delete_records(self, on: str, topic: str, partition: int, before: int) -> Options:
        from aiokafka.admin.records_to_delete import (  # noqa: PLC0415 (not in every version)
            RecordsToDelete,
        )

        place = TopicPartition(topic, partition)
        new_topics = {place: RecordsToDelete(before_offset=before)}
        found = self.wait(self.open[on].client.delete_records(new_topics))
        return {"low_watermark": found[place]}

    # --- the cluster

    def describe_cluster(self, on: str) -> Options:
        found = self.wait(self.open[on].client.describe_cluster())
        return {
            "cluster_id": found.get("cluster_id"),
            "controller": found["controller_id"],
            "brokers": [
                {"id": it["node_id"], "host": it["host"], "port": it["port"]}
                for it in found["brokers"]
            ],
        }

    # --- groups

    def list_groups(self, on: str) -> Options:
        found = self.wait(self.open[on].client.list_consumer_groups())
        return {"groups": [it[0] for it in found]}

    def describe_group(self, on: str, group: str) -> Options:
        responses = self.wait(self.open[on].client.describe_consumer_groups([group]))
        (found,) = (it for response in responses for it in response.groups)
        code, _, state, _, _, members, *_ = found
        refuse(code)
        return {"state": state, "members": [member_entry(*it) for it in members]}

    def group_offsets(self, on: str, group: str) -> Options:
        found = self.wait(self.open[on].client.list_consumer_group_offsets(group))
        return {
            "offsets": [
                {
                    "topic": place.topic,
                    "partition": place.partition,
                    "offset": it.offset if it.offset >= 0 else None,
                    "metadata": it.metadata,
                }
                for place, it in found.items()
            ]
        }

    def _asked(self, what: Coroutine[Any, Any, Any]) -> None:
        for code, message in errors_in(self.wait(what).to_object()):
            refuse(code, message)


def errors_in(response: Any) -> Iterator[tuple[int, str | None]]:
    """Yields all error codes of a response, at any depth."""
    if isinstance(response, dict):
        if response.get("error_code"):
            yield response["error_code"], response.get("error_message")
        for value in response.values():
            yield from errors_in(value)
    elif isinstance(response, list):
        for value in response:
            yield from errors_in(value)


def refuse(code: int, message: str | None = None) -> None:
    if code:
        raise Refused(code, message or for_code(code).__name__)


def resource(kind: str, name: str, configs: Options | None = None) -> ConfigResource:
    return ConfigResource(KINDS[kind], name, configs)


def partition_entry(found: Options) -> Options:
    return {
        "partition": found["partition"],
        "leader": found["leader"],
        "replicas": list(found["replicas"]),
        "in_sync": list(found["isr"]),
    }


def member_entry(
    _id: str, client_id: str, _host: str, _metadata: bytes, assigned: bytes
) -> Options:
    found = ConsumerProtocolMemberAssignment.decode(assigned).assignment if assigned else ()
    return {
        "client_id": client_id,
        "instance_id": None,
        "assignment": sorted([topic, it] for topic, partitions in found for it in partitions),
    }
