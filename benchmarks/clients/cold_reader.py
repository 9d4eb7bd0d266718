"""A consumer that repeatedly reads a partition from its start until its input ends."""

from __future__ import annotations

import argparse
import json

from confluent_kafka import Consumer, TopicPartition

from benchmarks.clients.steady_produce import input_has_ended

POLL_SECONDS = 0.1
BATCH = 500


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bootstrap")
    parser.add_argument("topic")
    asked = parser.parse_args()
    consumer = Consumer(
        {
            "bootstrap.servers": asked.bootstrap,
            "group.id": "cold-reader",
            "enable.auto.commit": False,
            "enable.partition.eof": False,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([TopicPartition(asked.topic, 0, 0)])
    count = size = 0
    while not input_has_ended(0):
        for message in consumer.consume(BATCH, POLL_SECONDS):
            if message.error() is None:
                count += 1
                size += len(message.value() or b"")
    print(json.dumps({"records": count, "bytes": size}))


if __name__ == "__main__":
    main()
