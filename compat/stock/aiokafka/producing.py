"""Producers of aiokafka."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiokafka import AIOKafkaProducer
from aiokafka.structs import OffsetAndMetadata, TopicPartition
from line_program import Options, each, headers, octets

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Coroutine

ACKS: dict[str, int | str] = {"0": 0, "1": 1, "all": "all"}


def last(_key: bytes | None, partitions: list[int], _available: list[int]) -> int:
    return max(partitions)


async def producer(options: Options) -> AIOKafkaProducer:
    settings = {
        "bootstrap_servers": options["bootstrap"],
        "client_id": options["client_id"],
        "acks": ACKS[options["acks"]],
        "compression_type": None if options["compression"] == "none" else options["compression"],
        "linger_ms": options["linger_ms"],
        "max_batch_size": options["batch_bytes_max"],
        "max_request_size": options["request_bytes_max"],
        "request_timeout_ms": options["request_timeout_ms"],
        "enable_idempotence": options["idempotent"],
        "transactional_id": options["transactional_id"],
        "transaction_timeout_ms": options["transaction_timeout_ms"],
        "partitioner": last if options["partitioner"] == "last" else None,
    }
    opened = AIOKafkaProducer(**{name: it for name, it in settings.items() if it is not None})
    await opened.start()
    return opened


class Producing:
    """Commands to producers."""

    open: dict[str, Any]

    def wait(self, what: Coroutine[Any, Any, Any]) -> Any:
        raise NotImplementedError

    def open_producer(self, on: str, **options: Any) -> None:
        self.open[on] = self.wait(producer(options))

    def produce(self, on: str, records: list[Options]) -> Options:
        outcomes = self.wait(produce(self.open[on], records))
        numbered = [{"outcome": it} for it in outcomes]
        return {"written": each(self, numbered, lambda it: written(it["outcome"]))}

    def begin(self, on: str) -> None:
        self.wait(self.open[on].begin_transaction())

    def send_offsets(self, on: str, consumer: str, offsets: list[Options]) -> None:
        found = {
            TopicPartition(it["topic"], it["partition"]): OffsetAndMetadata(
                it["offset"], it["metadata"] or ""
            )
            for it in offsets
        }
        group = self.open[consumer].group
        self.wait(self.open[on].send_offsets_to_transaction(found, group))

    def commit_transaction(self, on: str) -> None:
        self.wait(self.open[on].commit_transaction())

    def abort_transaction(self, on: str) -> None:
        self.wait(self.open[on].abort_transaction())


async def produce(opened: AIOKafkaProducer, rows: list[Options]) -> list[Any]:
    """Sends all records, then waits for all."""
    sent = [await hand_over(opened, row) for row in rows]
    return [it if isinstance(it, Exception) else await outcome_of(it) for it in sent]


async def hand_over(opened: AIOKafkaProducer, row: Options) -> Any:
    try:
        return await opened.send(
            row["topic"],
            value=octets(row["value"]),
            key=octets(row["key"]),
            headers=headers(row) or None,
            partition=row["partition"],
            timestamp_ms=row["timestamp_ms"],
        )
    except Exception as error:  # noqa: BLE001 (every error is the suite's to judge)
        return error


async def outcome_of(sent: asyncio.Future[Any]) -> Any:
    try:
        return await sent
    except Exception as error:  # noqa: BLE001 (every error is the suite's to judge)
        return error


def written(outcome: Any) -> Options:
    if isinstance(outcome, Exception):
        raise outcome
    if outcome is None:  # acks=0: no offset
        return {"topic": None, "partition": None, "offset": None}
    return {"topic": outcome.topic, "partition": outcome.partition, "offset": outcome.offset}
