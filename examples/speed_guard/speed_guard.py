"""Reads positions of trucks and writes a warning for each truck that is too fast."""

from __future__ import annotations

import json
import math
from threading import Event, Thread
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

POSITIONS, WARNINGS = "positions", "warnings"
BATCH_RECORDS = 500
POLL_SECONDS = 0.1
WRITE_SECONDS_MAX = 30
REMOVED_FROM_GROUP = {
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.REBALANCE_IN_PROGRESS,
}


class SpeedGuard:
    """A member of the group of guards, which share the trucks.

    Offsets are committed after the warnings are written, so warnings are at-least-once.
    """

    def __init__(self, bootstrap: str, *, limit_kmh: float, name: str) -> None:
        self._limit_kmh = limit_kmh
        common = {"bootstrap.servers": bootstrap, "client.id": name}
        self._producer = Producer({**common, "enable.idempotence": True, "linger.ms": 0})
        self._consumer = Consumer(
            {
                **common,
                "group.id": "speed-guards",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        self._consumer.subscribe([POSITIONS])

    def run(self, stopped: Event) -> None:
        """Runs until `stopped` is set."""
        while not stopped.is_set():
            self.process_batch()
        self._consumer.close()

    def process_batch(self) -> None:
        found = self._consumer.consume(BATCH_RECORDS, timeout=POLL_SECONDS)
        positions = [it for it in found if it.error() is None]
        for position in positions:
            self.check(position)
        if self._producer.flush(WRITE_SECONDS_MAX):
            raise TimeoutError("timed out writing warnings")
        if positions:
            self.commit()

    def commit(self) -> None:
        """Commits offsets, unless the group has removed this guard and reassigned its trucks."""
        try:
            self._consumer.commit(asynchronous=False)
        except KafkaException as refused:
            if refused.args[0].code() not in REMOVED_FROM_GROUP:
                raise

    def check(self, position: Message) -> None:
        warning = self.warning_of(position.value())
        if warning is not None:
            self._producer.produce(
                WARNINGS, json.dumps(warning), key=position.key(), on_delivery=expect_written
            )

    def warning_of(self, value: bytes | None) -> dict[str, Any] | None:
        """Returns a warning or None. Skips invalid records, which must not stop the service."""
        try:
            position = json.loads(value or b"")
            over_kmh = position["kmh"] - self._limit_kmh
            is_too_fast = 0 < over_kmh < math.inf
            return {"truck": position["truck"], "over_kmh": over_kmh} if is_too_fast else None
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            return None


def expect_written(error: Any, _: Message) -> None:
    if error is not None:
        raise KafkaException(error)


class InBackground:
    """Runs a guard in a thread within a `with` block."""

    def __init__(self, guard: SpeedGuard) -> None:
        self._stopped = Event()
        self._thread = Thread(target=guard.run, args=(self._stopped,))

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()
