"""A librdkafka client that writes records with repeating keys, like state changes."""

import argparse
import json
import time
from contextlib import suppress
from random import Random

from confluent_kafka import Producer

_BATCH = 10_000
_STALL_SECONDS = 60.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bootstrap")
    parser.add_argument("topic")
    parser.add_argument("records", type=int)
    parser.add_argument("keys", type=int)
    parser.add_argument("record_size", type=int)
    parser.add_argument("partitions", type=int, nargs="?", default=1)
    asked = parser.parse_args()
    producer = Producer(
        {
            "bootstrap.servers": asked.bootstrap,
            "acks": "all",
            "linger.ms": 5,
            "queue.buffering.max.messages": 500_000,
            "delivery.report.only.error": True,
            "on_delivery": _refuse_failure,
        }
    )
    producer.list_topics(asked.topic, timeout=30)
    chance, value = Random(7), b"x" * asked.record_size  # both brokers get the same records
    began = time.perf_counter()
    for first in range(0, asked.records, _BATCH):
        batch = [
            {"key": b"key-%012d" % chance.randrange(asked.keys), "value": value}
            for _ in range(min(_BATCH, asked.records - first))
        ]
        _queue(producer, asked.topic, batch, first // _BATCH % asked.partitions)
    if left := producer.flush(_STALL_SECONDS):
        raise SystemExit(f"{left} records were not acknowledged")
    print(json.dumps({"seconds": time.perf_counter() - began}))


def _queue(producer: Producer, topic: str, batch: list[dict[str, bytes]], partition: int) -> None:
    """Produces a batch to one partition; waits while the queue is full."""
    queued = 0
    while queued < len(batch):
        with suppress(BufferError):
            queued += producer.produce_batch(topic, batch[queued:], partition=partition)
        if queued < len(batch):
            batch[-1].pop("_error", None)  # the queue-full error
            producer.poll(0.01)
    producer.poll(0)


def _refuse_failure(error: object, _message: object) -> None:
    if error is not None:
        raise SystemExit(f"record not delivered: {error}")


if __name__ == "__main__":
    main()
