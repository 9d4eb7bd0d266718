"""Consumers of aiokafka."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiokafka import AIOKafkaConsumer
from aiokafka.structs import OffsetAndMetadata, TopicPartition
from line_program import Options, PartitionKey, Positions, record

try:
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
except ImportError:  # before 0.9 in kafka-python
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

if TYPE_CHECKING:
    from collections.abc import Coroutine

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


class Consumer:
    """A consumer with its positions."""

    def __init__(self, options: Options) -> None:
        self.positions = Positions()
        self.group = options["group"]
        assignor = options["assignor"]
        settings = {
            "bootstrap_servers": options["bootstrap"],
            "client_id": options["client_id"],
            "group_id": options["group"],
            "group_instance_id": options["instance_id"],
            "enable_auto_commit": False,
            "auto_offset_reset": options["reset"],
            "isolation_level": options["isolation"],
            "session_timeout_ms": options["session_timeout_ms"],
            "heartbeat_interval_ms": options["heartbeat_interval_ms"],
            "fetch_min_bytes": options["fetch_bytes_min"],
            "fetch_max_wait_ms": options["fetch_wait_ms_max"],
            "max_partition_fetch_bytes": options["partition_bytes_max"],
            "max_poll_records": options["records_max"],
            "partition_assignment_strategy": (ASSIGNORS[assignor],) if assignor else None,
        }
        self.consumer = AIOKafkaConsumer(
            **{name: it for name, it in settings.items() if it is not None}
        )

    async def stop(self) -> None:
        await self.consumer.stop()

    async def poll(self, timeout_ms: int) -> Options:
        found = await self.consumer.getmany(timeout_ms=timeout_ms)
        records = [
            record(place, it.offset, it.timestamp, it.key, it.value, it.headers)
            for place, records in found.items()
            for it in records
        ]
        self.positions.advance(records)
        assignment = sorted([it.topic, it.partition] for it in self.consumer.assignment())
        return {"records": records, "assignment": assignment}

    async def assign(self, partitions: list[Options]) -> None:
        self.consumer.assign([TopicPartition(it["topic"], it["partition"]) for it in partitions])
        for it in partitions:
            await self.go_to(TopicPartition(it["topic"], it["partition"]), it["offset"])

    async def go_to(self, place: TopicPartition, offset: int | str) -> None:
        self.positions.offsets.pop((place.topic, place.partition), None)
        match offset:
            case "beginning":
                await self.consumer.seek_to_beginning(place)
            case "end":
                await self.consumer.seek_to_end(place)
            case "committed":
                await self.consumer.seek_to_committed(place)
            case int():
                self.consumer.seek(place, offset)

    async def offsets_at(self, places: list[TopicPartition], at: int | str) -> dict[Any, Any]:
        if at == "beginning":
            return dict(await self.consumer.beginning_offsets(places))
        if at == "end":
            return dict(await self.consumer.end_offsets(places))
        found = await self.consumer.offsets_for_times(dict.fromkeys(places, at))
        return {place: it and it.offset for place, it in found.items()}

    async def call(self, name: str, *arguments: Any) -> None:
        """Calls a method that is not a coroutine in the thread of the event loop."""
        getattr(self.consumer, name)(*arguments)


class Consuming:
    """Commands to consumers."""

    open: dict[str, Any]

    def wait(self, what: Coroutine[Any, Any, Any]) -> Any:
        raise NotImplementedError

    def open_consumer(self, on: str, **options: Any) -> None:
        async def start() -> Consumer:
            opened = Consumer(options)
            await opened.consumer.start()
            return opened

        self.open[on] = self.wait(start())

    def subscribe(self, on: str, topics: list[str]) -> None:
        self.wait(self.open[on].call("subscribe", topics))

    def assign(self, on: str, partitions: list[Options]) -> None:
        self.wait(self.open[on].assign(partitions))

    def poll(self, on: str, timeout_ms: int) -> Options:
        found: Options = self.wait(self.open[on].poll(timeout_ms))
        return found

    def seek(self, on: str, topic: str, partition: int, offset: int | str) -> None:
        self.wait(self.open[on].go_to(TopicPartition(topic, partition), offset))

    def position(self, on: str, topic: str, partition: int) -> Options:
        found = self.wait(self.open[on].consumer.position(TopicPartition(topic, partition)))
        return {"offset": found}

    def pause(self, on: str, partitions: list[PartitionKey]) -> None:
        self.wait(self.open[on].call("pause", *(TopicPartition(*it) for it in partitions)))

    def resume(self, on: str, partitions: list[PartitionKey]) -> None:
        self.wait(self.open[on].call("resume", *(TopicPartition(*it) for it in partitions)))

    def commit(self, on: str, offsets: list[Options] | None) -> None:
        opened = self.open[on]
        requested = {
            TopicPartition(*place): OffsetAndMetadata(offset, metadata)
            for place, offset, metadata in opened.positions.to_commit(offsets)
        }
        self.wait(opened.consumer.commit(requested))

    def committed(self, on: str, partitions: list[PartitionKey]) -> Options:
        consumer = self.open[on].consumer
        found = [
            {
                "topic": topic,
                "partition": partition,
                "offset": self.wait(consumer.committed(TopicPartition(topic, partition))),
                "metadata": None,
            }
            for topic, partition in partitions
        ]
        return {"offsets": found}

    def offsets_at(self, on: str, partitions: list[PartitionKey], at: int | str) -> Options:
        places = [TopicPartition(*it) for it in partitions]
        found = self.wait(self.open[on].offsets_at(places, at))
        return {
            "offsets": [
                {"topic": it.topic, "partition": it.partition, "offset": found[it]} for it in places
            ]
        }
