"""Producers of kafka-python."""

from __future__ import annotations

from typing import Any

import kafka
from kafka.structs import OffsetAndMetadata, TopicPartition
from line_program import Options, each, headers, octets

ACKS = {"0": 0, "1": 1, "all": "all"}


class Last:
    """Selects the highest partition; called in version 2, `partition()` in version 3."""

    def __call__(self, _key: bytes, partitions: list[int], _available: list[int]) -> int:
        return max(partitions)

    def partition(self, topic: str, *rest: Any) -> int:
        return int(max(rest[-1].partitions_for_topic(topic)))


def producer(options: Options) -> kafka.KafkaProducer:
    settings: dict[str, Any] = {
        "bootstrap_servers": options["bootstrap"].split(","),
        "client_id": options["client_id"],
        "acks": ACKS[options["acks"]],
        "compression_type": None if options["compression"] == "none" else options["compression"],
        "linger_ms": options["linger_ms"],
        "batch_size": options["batch_bytes_max"],
        "max_request_size": options["request_bytes_max"],
        "request_timeout_ms": options["request_timeout_ms"],
        "max_block_ms": options["delivery_timeout_ms"],
        "delivery_timeout_ms": options["delivery_timeout_ms"],
        "enable_idempotence": options["idempotent"],
        "transactional_id": options["transactional_id"],
        "transaction_timeout_ms": options["transaction_timeout_ms"],
        "partitioner": Last() if options["partitioner"] == "last" else None,
    }
    if options["transactional_id"]:
        del settings["enable_idempotence"]
    known = kafka.KafkaProducer.DEFAULT_CONFIG
    opened = kafka.KafkaProducer(
        **{name: it for name, it in settings.items() if it is not None and name in known},
        **({"compression_type": None} if settings["compression_type"] is None else {}),
    )
    if options["transactional_id"]:
        opened.init_transactions()
    return opened


class Producing:
    """Commands to producers."""

    open: dict[str, Any]

    def open_producer(self, on: str, **options: Any) -> None:
        self.open[on] = producer(options)

    def produce(self, on: str, records: list[Options]) -> Options:
        opened = self.open[on]
        sent = {
            id(row): each(self, [row], lambda it: {"sent": send(opened, it)})[0] for row in records
        }
        opened.flush()

        def outcome(row: Options) -> Options:
            result = sent[id(row)]
            if "error" in result:
                return result
            written = result["sent"].get(timeout=30)
            return {
                "topic": written.topic,
                "partition": written.partition,
                "offset": written.offset,
            }

        return {"written": each(self, records, outcome)}

    def begin(self, on: str) -> None:
        self.open[on].begin_transaction()

    def send_offsets(self, on: str, consumer: str, offsets: list[Options]) -> None:
        found = {
            TopicPartition(it["topic"], it["partition"]): OffsetAndMetadata(
                it["offset"], it["metadata"] or "", -1
            )
            for it in offsets
        }
        group = self.open[consumer].consumer.group_metadata()
        self.open[on].send_offsets_to_transaction(found, group)

    def commit_transaction(self, on: str) -> None:
        self.open[on].commit_transaction()

    def abort_transaction(self, on: str) -> None:
        self.open[on].abort_transaction()


def send(opened: kafka.KafkaProducer, row: Options) -> Any:
    return opened.send(
        row["topic"],
        value=octets(row["value"]),
        key=octets(row["key"]),
        headers=headers(row),
        partition=row["partition"],
        timestamp_ms=row["timestamp_ms"],
    )
