"""Consumers of confluent-kafka."""

from __future__ import annotations

import uuid
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_STORED,
    KafkaException,
    TopicPartition,
)
from confluent_kafka import (
    Consumer as Library,
)
from line_program import Options, PartitionKey, Positions, record

CALL_SECONDS = 15.0
RECORDS_PER_POLL = 500
LOGICAL = {"beginning": OFFSET_BEGINNING, "end": OFFSET_END, "committed": OFFSET_STORED}
RESETS = {"none": "error"}


class Consumer:
    """A consumer with its positions."""

    def __init__(self, options: Options) -> None:
        self.positions = Positions()
        self.records_max = options["records_max"] or RECORDS_PER_POLL
        is_classic = options["protocol"] == "classic"
        settings = {
            "bootstrap.servers": options["bootstrap"],
            "client.id": options["client_id"],
            "group.id": options["group"] or f"compat-{uuid.uuid4()}",
            "group.instance.id": options["instance_id"],
            "group.protocol": None if is_classic else options["protocol"],
            "partition.assignment.strategy": options["assignor"] if is_classic else None,
            "group.remote.assignor": None if is_classic else options["assignor"],
            "enable.auto.commit": False,
            "auto.offset.reset": RESETS.get(options["reset"], options["reset"]),
            "isolation.level": options["isolation"],
            "session.timeout.ms": options["session_timeout_ms"],
            "heartbeat.interval.ms": options["heartbeat_interval_ms"],
            "fetch.min.bytes": options["fetch_bytes_min"],
            "fetch.wait.max.ms": options["fetch_wait_ms_max"],
            "max.partition.fetch.bytes": options["partition_bytes_max"],
            "reconnect.backoff.max.ms": 500,
        }
        self.consumer = Library({name: it for name, it in settings.items() if it is not None})

    def close(self) -> None:
        self.consumer.close()

    def poll(self, timeout_ms: int) -> list[Options]:
        found: list[Options] = []
        seconds = timeout_ms / 1000
        while len(found) < self.records_max:
            message = self.consumer.poll(0 if found else seconds)
            if message is None:
                break
            if message.error() is not None:
                raise KafkaException(message.error())
            found.append(record_entry(message))
        self.positions.advance(found)
        return found


class Consuming:
    """Commands to consumers."""

    open: dict[str, Any]

    def open_consumer(self, on: str, **options: Any) -> None:
        self.open[on] = Consumer(options)

    def subscribe(self, on: str, topics: list[str]) -> None:
        self.open[on].consumer.subscribe(topics)

    def assign(self, on: str, partitions: list[Options]) -> None:
        self.open[on].consumer.assign(
            [
                TopicPartition(it["topic"], it["partition"], number_of(it["offset"]))
                for it in partitions
            ]
        )

    def poll(self, on: str, timeout_ms: int) -> Options:
        opened = self.open[on]
        records = opened.poll(timeout_ms)
        assignment = sorted([it.topic, it.partition] for it in opened.consumer.assignment())
        return {"records": records, "assignment": assignment}

    def seek(self, on: str, topic: str, partition: int, offset: int | str) -> None:
        opened = self.open[on]
        opened.consumer.seek(TopicPartition(topic, partition, number_of(offset)))
        opened.positions.offsets.pop((topic, partition), None)

    def position(self, on: str, topic: str, partition: int) -> Options:
        (found,) = self.open[on].consumer.position([TopicPartition(topic, partition)])
        return {"offset": found.offset}

    def pause(self, on: str, partitions: list[PartitionKey]) -> None:
        self.open[on].consumer.pause([TopicPartition(*it) for it in partitions])

    def resume(self, on: str, partitions: list[PartitionKey]) -> None:
        self.open[on].consumer.resume([TopicPartition(*it) for it in partitions])

    def commit(self, on: str, offsets: list[Options] | None) -> None:
        opened = self.open[on]
        requested = [
            TopicPartition(*place, offset, metadata)  # type: ignore[call-arg]  # its stub lacks metadata
            for place, offset, metadata in opened.positions.to_commit(offsets)
        ]
        for it in opened.consumer.commit(offsets=requested, asynchronous=False):
            if it.error is not None:
                raise KafkaException(it.error)

    def committed(self, on: str, partitions: list[PartitionKey]) -> Options:
        places = [TopicPartition(*it) for it in partitions]
        found = self.open[on].consumer.committed(places, CALL_SECONDS)
        return {"offsets": list(map(committed_entry, found))}

    def offsets_at(self, on: str, partitions: list[PartitionKey], at: int | str) -> Options:
        consumer = self.open[on].consumer
        places = [TopicPartition(*it) for it in partitions]
        if isinstance(at, int):
            requested = [TopicPartition(it.topic, it.partition, at) for it in places]
            found = [it.offset for it in consumer.offsets_for_times(requested, CALL_SECONDS)]
        else:
            ends = [consumer.get_watermark_offsets(it, CALL_SECONDS) for it in places]
            found = [it[at == "end"] for it in ends]
        return {
            "offsets": [
                {"topic": it.topic, "partition": it.partition, "offset": None if o < 0 else o}
                for it, o in zip(places, found, strict=True)
            ]
        }


def number_of(offset: int | str) -> int:
    return offset if isinstance(offset, int) else LOGICAL[offset]


def record_entry(message: Any) -> Options:
    _, timestamp_ms = message.timestamp()
    place = message.topic(), message.partition()
    return record(
        place,
        message.offset(),
        timestamp_ms,
        message.key(),
        message.value(),
        message.headers() or (),
    )


def committed_entry(found: TopicPartition) -> Options:
    if found.error is not None:
        raise KafkaException(found.error)
    has_one = found.offset >= 0
    return {
        "topic": found.topic,
        "partition": found.partition,
        "offset": found.offset if has_one else None,
        "metadata": getattr(found, "metadata", None) if has_one else None,
    }
