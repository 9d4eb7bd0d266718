"""Consumers of kafka-python."""

from __future__ import annotations

from typing import Any

import kafka
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.structs import OffsetAndMetadata, TopicPartition
from line_program import Options, PartitionKey, Positions, record


class Consumer:
    """A consumer with its positions."""

    def __init__(self, options: Options) -> None:
        self.positions = Positions()
        settings: dict[str, Any] = {
            "bootstrap_servers": options["bootstrap"].split(","),
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
            "partition_assignment_strategy": assignors(options["assignor"]),
            "reconnect_backoff_max_ms": 500,
        }
        known = kafka.KafkaConsumer.DEFAULT_CONFIG
        self.consumer = kafka.KafkaConsumer(
            **{name: it for name, it in settings.items() if it is not None and name in known}
        )

    def close(self) -> None:
        self.consumer.close(autocommit=False)

    def poll(self, timeout_ms: int) -> list[Options]:
        found = self.consumer.poll(timeout_ms=timeout_ms)
        found_records = [
            record(place, it.offset, it.timestamp, it.key, it.value, it.headers)
            for place, records in found.items()
            for it in records
        ]
        self.positions.advance(found_records)
        return found_records

    def go_to(self, place: TopicPartition, offset: int | str) -> None:
        match offset:
            case "beginning":
                self.consumer.seek_to_beginning(place)
            case "end":
                self.consumer.seek_to_end(place)
                self.consumer.position(place)
            case int():
                self.consumer.seek(place, offset)
        self.positions.offsets.pop((place.topic, place.partition), None)


def assignors(name: str | None) -> list[type] | None:
    match name:
        case None:
            return None
        case "range":
            return [RangePartitionAssignor]
        case "roundrobin":
            return [RoundRobinPartitionAssignor]
        case "sticky":
            from kafka.coordinator.assignors.sticky.sticky_assignor import (  # noqa: PLC0415 (not in every version)
                StickyPartitionAssignor,
            )

            return [StickyPartitionAssignor]
        case _:
            from kafka.coordinator.assignors.cooperative_sticky import (  # noqa: PLC0415 (not in every version)
                CooperativeStickyAssignor,
            )

            return [CooperativeStickyAssignor]


class Consuming:
    """Commands to consumers."""

    open: dict[str, Any]

    def open_consumer(self, on: str, **options: Any) -> None:
        self.open[on] = Consumer(options)

    def subscribe(self, on: str, topics: list[str]) -> None:
        self.open[on].consumer.subscribe(topics)

    def assign(self, on: str, partitions: list[Options]) -> None:
        opened = self.open[on]
        opened.consumer.assign([place_of(it) for it in partitions])
        for it in partitions:
            opened.go_to(place_of(it), it["offset"])

    def poll(self, on: str, timeout_ms: int) -> Options:
        opened = self.open[on]
        records = opened.poll(timeout_ms)
        assignment = sorted([it.topic, it.partition] for it in opened.consumer.assignment())
        return {"records": records, "assignment": assignment}

    def seek(self, on: str, topic: str, partition: int, offset: int | str) -> None:
        self.open[on].go_to(TopicPartition(topic, partition), offset)

    def position(self, on: str, topic: str, partition: int) -> Options:
        return {"offset": self.open[on].consumer.position(TopicPartition(topic, partition))}

    def pause(self, on: str, partitions: list[PartitionKey]) -> None:
        self.open[on].consumer.pause(*(TopicPartition(*it) for it in partitions))

    def resume(self, on: str, partitions: list[PartitionKey]) -> None:
        self.open[on].consumer.resume(*(TopicPartition(*it) for it in partitions))

    def commit(self, on: str, offsets: list[Options] | None) -> None:
        opened = self.open[on]
        opened.consumer.commit(
            {
                TopicPartition(*place): offset_and_metadata(offset, metadata)
                for place, offset, metadata in opened.positions.to_commit(offsets)
            }
        )

    def committed(self, on: str, partitions: list[PartitionKey]) -> Options:
        found = (
            (it, self.open[on].consumer.committed(TopicPartition(*it), metadata=True))
            for it in partitions
        )
        return {"offsets": [committed_entry(place, it) for place, it in found]}

    def offsets_at(self, on: str, partitions: list[PartitionKey], at: int | str) -> Options:
        consumer = self.open[on].consumer
        places = [TopicPartition(*it) for it in partitions]
        if at == "beginning":
            offsets = consumer.beginning_offsets(places)
        elif at == "end":
            offsets = consumer.end_offsets(places)
        else:
            found = consumer.offsets_for_times(dict.fromkeys(places, at))
            offsets = {place: it and it.offset for place, it in found.items()}
        return {
            "offsets": [
                {"topic": it.topic, "partition": it.partition, "offset": offsets[it]}
                for it in places
            ]
        }


def place_of(it: Options) -> TopicPartition:
    return TopicPartition(it["topic"], it["partition"])


def offset_and_metadata(offset: int, metadata: str) -> OffsetAndMetadata:
    """Adds a leader epoch in newer versions."""
    return OffsetAndMetadata(*(offset, metadata, -1)[: len(OffsetAndMetadata._fields)])


def committed_entry(place: PartitionKey, found: Any) -> Options:
    entry: Options = {"topic": place[0], "partition": place[1], "offset": None, "metadata": None}
    if found is not None:
        entry |= {"offset": found.offset, "metadata": found.metadata}
    return entry
