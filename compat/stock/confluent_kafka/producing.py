"""Producers of confluent-kafka."""

from __future__ import annotations

from typing import Any

from confluent_kafka import KafkaException, Producer, TopicPartition
from line_program import Options, Refused, each, headers, octets

FLUSH_SECONDS = 35.0
TRANSACTION_SECONDS = 30.0
PARTITIONERS = {"java": "murmur2_random"}


def producer(options: Options) -> Producer:
    settings = {
        "bootstrap.servers": options["bootstrap"],
        "client.id": options["client_id"],
        "acks": options["acks"],
        "compression.type": options["compression"],
        "linger.ms": options["linger_ms"],
        "batch.size": options["batch_bytes_max"],
        "message.max.bytes": options["request_bytes_max"],
        "delivery.timeout.ms": options["delivery_timeout_ms"],
        "request.timeout.ms": options["request_timeout_ms"],
        "enable.idempotence": options["idempotent"] or None,
        "transactional.id": options["transactional_id"],
        "transaction.timeout.ms": options["transaction_timeout_ms"],
        "partitioner": PARTITIONERS.get(options["partitioner"]),
        "reconnect.backoff.max.ms": 500,
    }
    if options["transactional_id"]:
        del settings["delivery.timeout.ms"]  # must not exceed the transaction timeout
    opened = Producer({name: it for name, it in settings.items() if it is not None})
    if options["transactional_id"]:
        opened.init_transactions(TRANSACTION_SECONDS)
    return opened


class Producing:
    """Commands to producers."""

    open: dict[str, Any]

    def open_producer(self, on: str, **options: Any) -> None:
        self.open[on] = producer(options)

    def produce(self, on: str, records: list[Options]) -> Options:
        opened = self.open[on]
        result: dict[int, Options] = {}

        def hand_over(number: int, row: Options) -> None:
            def on_delivery(error: Any, message: Any) -> None:
                result[number] = {"error": error, "message": message}

            while True:
                try:
                    opened.produce(**arguments(row), on_delivery=on_delivery)
                except BufferError:  # the queue is full
                    opened.poll(0.1)
                else:
                    return

        for number, row in enumerate(records):
            try:
                hand_over(number, row)
            except KafkaException as error:
                result[number] = {"error": error.args[0], "message": None}
        opened.flush(FLUSH_SECONDS)
        numbered = [{"number": number} for number in range(len(records))]
        return {"written": each(self, numbered, lambda it: written(result.get(it["number"])))}

    def begin(self, on: str) -> None:
        self.open[on].begin_transaction()

    def send_offsets(self, on: str, consumer: str, offsets: list[Options]) -> None:
        found = [
            TopicPartition(it["topic"], it["partition"], it["offset"], it["metadata"] or "")
            for it in offsets
        ]
        group = self.open[consumer].consumer.consumer_group_metadata()
        self.open[on].send_offsets_to_transaction(found, group, TRANSACTION_SECONDS)

    def commit_transaction(self, on: str) -> None:
        self.open[on].commit_transaction(TRANSACTION_SECONDS)

    def abort_transaction(self, on: str) -> None:
        self.open[on].abort_transaction(TRANSACTION_SECONDS)


def arguments(row: Options) -> Options:
    given = {
        "topic": row["topic"],
        "value": octets(row["value"]),
        "key": octets(row["key"]),
        "headers": headers(row) or None,
        "partition": row["partition"],
        "timestamp": row["timestamp_ms"],
    }
    return {name: it for name, it in given.items() if it is not None}


def written(result: Options | None) -> Options:
    if result is None:
        raise Refused("TIMED_OUT", "record not delivered before the flush timed out")
    if result["error"] is not None:
        raise KafkaException(result["error"])
    message = result["message"]
    offset = message.offset()
    return {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": None if offset is None or offset < 0 else offset,
    }
