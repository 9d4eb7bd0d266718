"""A librdkafka client that produces or consumes as fast as it can."""

import argparse
import json
import time
from contextlib import suppress
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

_BATCH = 10_000
_STALL_SECONDS = 60.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", choices=["produce", "consume"])
    parser.add_argument("bootstrap")
    parser.add_argument("topic")
    parser.add_argument("partitions", type=int)
    parser.add_argument("records", type=int)
    parser.add_argument("record_size", type=int)
    options = parser.parse_args()
    work = produce if options.work == "produce" else consume
    elapsed, cpu_seconds = work(options)
    numbers = {
        "seconds": elapsed,
        "records_per_second": options.records / elapsed,
        "client_cpu_seconds": cpu_seconds,
    }
    print(json.dumps(numbers))


def produce(options: argparse.Namespace) -> tuple[float, float]:
    """Measures from the first produced record until all records are acknowledged."""
    producer = Producer(
        {
            "bootstrap.servers": options.bootstrap,
            "acks": "all",
            "linger.ms": 5,
            "queue.buffering.max.messages": 500_000,
            "queue.buffering.max.kbytes": 262_144,
            "delivery.report.only.error": True,  # a call per record would measure Python
            "on_delivery": _refuse_failure,
        }
    )
    producer.list_topics(options.topic, timeout=30)
    message = {"value": b"x" * options.record_size}
    batch = [message] * _BATCH
    began, cpu_began = time.perf_counter(), time.process_time()
    queued = turn = 0
    while queued < options.records:
        count = min(_BATCH, options.records - queued)
        queued += _queue(producer, options.topic, batch[:count], turn % options.partitions)
        turn += 1
    if left := producer.flush(_STALL_SECONDS):
        raise SystemExit(f"{left} records were not acknowledged")
    return time.perf_counter() - began, time.process_time() - cpu_began


def _queue(producer: Any, topic: str, batch: list[dict[str, bytes]], partition: int) -> int:
    """Produces a batch to one partition; waits while the queue is full."""
    queued = 0
    while queued < len(batch):
        with suppress(BufferError):
            queued += producer.produce_batch(topic, batch[queued:], partition=partition)
        if queued < len(batch):
            batch[-1].pop("_error", None)  # the queue-full error
            producer.poll(0.01)
    producer.poll(0)
    return queued


def _refuse_failure(error: object, _message: object) -> None:
    if error is not None:
        raise SystemExit(f"record not delivered: {error}")


def consume(options: argparse.Namespace) -> tuple[float, float]:
    """Measures from the first to the last received record."""
    consumer = Consumer(
        {
            "bootstrap.servers": options.bootstrap,
            "group.id": "benchmark",
            "enable.auto.commit": False,
            "enable.partition.eof": False,
            "queued.min.messages": 200_000,
            # By default librdkafka pauses for a second when its queue is full. With a fast broker
            # only this second would be measured.
            "fetch.queue.backoff.ms": 1,
        }
    )
    consumer.assign([TopicPartition(options.topic, p, 0) for p in range(options.partitions)])
    received = len(consumer.consume(1, _STALL_SECONDS))
    began, cpu_began = time.perf_counter(), time.process_time()
    while received < options.records:
        count = min(_BATCH, options.records - received)  # consume() would wait for missing records
        messages = consumer.consume(count, _STALL_SECONDS)
        if not messages:
            raise SystemExit(f"only {received} of {options.records} records arrived")
        received += len(messages)
    return time.perf_counter() - began, time.process_time() - cpu_began


if __name__ == "__main__":
    main()
