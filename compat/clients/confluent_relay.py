"""A relay with confluent-kafka (librdkafka)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from compat.clients import relay_program
from compat.clients.relay_program import (
    POLL_SECONDS,
    RECORDS_PER_POLL_MAX,
    TIMEOUT_SECONDS,
    Guarantee,
    Positions,
    RelayOptions,
    Results,
)
from pykbroker.testing.history import Client, Record

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class ConfluentLibrary:
    """librdkafka reports which errors are retriable."""

    error = KafkaException

    def __init__(self, options: RelayOptions) -> None:
        self.options = options
        self.producer = Producer(producer_settings(options))
        self.consumer = Consumer(
            {
                "bootstrap.servers": options.bootstrap,
                "client.id": options.name,
                "group.id": options.group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "session.timeout.ms": options.session_timeout_ms,
                "heartbeat.interval.ms": options.session_timeout_ms // 6,
                "partition.assignment.strategy": "range",
                "reconnect.backoff.max.ms": 500,
                "fetch.wait.max.ms": 50,
            }
        )

    def open(self, client: Client) -> None:
        if self.options.is_transactional:
            self.until_done(lambda: self.producer.init_transactions(TIMEOUT_SECONDS))
        if self.options.partitions is not None:
            own = [TopicPartition(self.options.source, it) for it in self.options.partitions]
            self.consumer.assign(own)
            client.assigned(*((self.options.source, it) for it in self.options.partitions))
            return
        self.consumer.subscribe(
            [self.options.source],
            on_assign=lambda _, found: client.assigned(*places_of(found)),
            on_revoke=lambda _, found: client.revoked(*places_of(found)),
            on_lost=lambda _, found: client.revoked(*places_of(found)),
        )

    def poll(self) -> list[Record]:
        found = self.consumer.consume(RECORDS_PER_POLL_MAX, POLL_SECONDS)
        return [record_of(it) for it in found if it.error() is None]

    def seek(self, positions: Positions) -> Positions:
        own = {(it.topic, it.partition) for it in self.consumer.assignment()}
        kept = {place: offset for place, offset in positions.items() if place in own}
        for (topic, partition), offset in kept.items():
            self.consumer.seek(TopicPartition(topic, partition, offset))
        return kept

    def begin(self) -> None:
        self.producer.begin_transaction()

    def send(self, records: Sequence[tuple[int, str]]) -> Results:
        results: Results = [TimeoutError("no answer")] * len(records)

        def deliver(index: int) -> Callable[[Any, Any], None]:
            def delivered(error: Any, record: Any) -> None:
                results[index] = KafkaException(error) if error else record.offset()

            return delivered

        for index, (partition, value) in enumerate(records):
            self.producer.produce(
                self.options.sink, value, partition=partition, on_delivery=deliver(index)
            )
        self.producer.flush(TIMEOUT_SECONDS)
        return results

    def send_offsets(self, positions: Positions) -> None:
        member = self.consumer.consumer_group_metadata()
        self.until_done(
            lambda: self.producer.send_offsets_to_transaction(
                offsets_of(positions), member, TIMEOUT_SECONDS
            )
        )

    def commit(self) -> None:
        self.until_done(lambda: self.producer.commit_transaction(TIMEOUT_SECONDS))

    def abort(self) -> None:
        self.until_done(lambda: self.producer.abort_transaction(TIMEOUT_SECONDS))

    def commit_offsets(self, positions: Positions) -> None:
        self.consumer.commit(offsets=offsets_of(positions), asynchronous=False)

    def close(self) -> None:
        self.consumer.close()

    def until_done(self, act: Callable[[], None]) -> None:
        deadline = time.monotonic() + 2 * TIMEOUT_SECONDS
        while True:
            try:
                return act()
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > deadline:
                    raise
                time.sleep(POLL_SECONDS)


def producer_settings(options: RelayOptions) -> dict[str, object]:
    settings: dict[str, object] = {
        "bootstrap.servers": options.bootstrap,
        "client.id": options.name,
        "linger.ms": 1,
        "reconnect.backoff.max.ms": 500,
    }
    match options.guarantee:
        case Guarantee.AT_MOST_ONCE:
            return {**settings, "retries": 0, "acks": 1}
        case Guarantee.AT_LEAST_ONCE:
            return {**settings, "max.in.flight": 1, "acks": "all"}
        case Guarantee.EXACTLY_ONCE:
            return {
                **settings,
                "transactional.id": options.transactional_id,
                "transaction.timeout.ms": options.transaction_timeout_ms,
            }


def places_of(partitions: list[TopicPartition]) -> list[tuple[str, int]]:
    return [(it.topic, it.partition) for it in partitions]


def offsets_of(positions: Positions) -> list[TopicPartition]:
    return [TopicPartition(*place, offset) for place, offset in positions.items()]


def record_of(found: Any) -> Record:
    return Record(found.topic(), found.partition(), found.offset(), found.value().decode())


if __name__ == "__main__":
    relay_program.main(ConfluentLibrary)
