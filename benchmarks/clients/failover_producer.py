"""A librdkafka producer with acks=all; reports its longest time without an acknowledgement.

Produces a record to partition 0 every few milliseconds until its input ends.
"""

import argparse
import json
import select
import sys
import time

from confluent_kafka import Producer

EACH_SECONDS = 0.005


class Gap:
    """The longest time between two acknowledgements, as seconds since 1970."""

    def __init__(self) -> None:
        self.began = self.ended = self._last = time.time()
        self.acknowledged = 0
        self.failed = 0

    def on_delivery(self, error: object, _message: object) -> None:
        now = time.time()
        if error is not None:
            self.failed += 1
            return
        self.acknowledged += 1
        if now - self._last > self.ended - self.began:
            self.began, self.ended = self._last, now
        self._last = now


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bootstrap")
    parser.add_argument("topic")
    options = parser.parse_args()
    gap = Gap()
    producer = Producer(
        {
            "bootstrap.servers": options.bootstrap,
            "enable.idempotence": True,
            "linger.ms": 0,
            "on_delivery": gap.on_delivery,
        }
    )
    due = time.perf_counter()
    while not _input_has_ended(due - time.perf_counter()):
        producer.produce(options.topic, b"x" * 100, partition=0)
        producer.poll(0)
        due += EACH_SECONDS
    producer.flush(30)
    print(
        json.dumps(
            {
                "began": gap.began,
                "ended": gap.ended,
                "acknowledged": gap.acknowledged,
                "failed": gap.failed,
            }
        )
    )


def _input_has_ended(wait_seconds: float) -> bool:
    ready, _, _ = select.select([sys.stdin], [], [], max(wait_seconds, 0))
    return bool(ready)


if __name__ == "__main__":
    main()
