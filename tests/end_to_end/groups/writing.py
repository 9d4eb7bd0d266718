"""Produces records while a group reads, so that a missed record in a rebalance is noticed."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Self

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

if TYPE_CHECKING:
    from compat.clients.member_processes import PartitionKey, Partitions

PAUSE_SECONDS = 0.02
TIMEOUT_SECONDS = 60.0


def create_topic(bootstrap: str, topic: str, partitions: int) -> Partitions:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (created,) = admin.create_topics([NewTopic(topic, partitions, 1)]).values()
    created.result(TIMEOUT_SECONDS)
    return frozenset((topic, number) for number in range(partitions))


class Writer:
    """A context manager with a thread that produces to all partitions in turn."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.written: dict[PartitionKey, set[int]] = {}
        self._topic = topic
        self._partitions = partitions
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 1,
                "reconnect.backoff.max.ms": 500,
            }
        )
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stops and waits until all records are acknowledged."""
        self._stopping.set()
        self._thread.join()
        assert self._producer.flush(TIMEOUT_SECONDS) == 0

    def _write(self) -> None:
        number = 0
        while not self._stopping.is_set():
            for partition in range(self._partitions):
                self._producer.produce(
                    self._topic, b"%d" % number, partition=partition, on_delivery=self._delivered
                )
                number += 1
            self._producer.poll(0)
            self._stopping.wait(PAUSE_SECONDS)

    def _delivered(self, error: object, record: Any) -> None:
        assert error is None, error
        self.written.setdefault((record.topic(), record.partition()), set()).add(record.offset())
