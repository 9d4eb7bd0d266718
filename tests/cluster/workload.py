"""Producers of a stock client that write to a cluster and record what was acknowledged."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from confluent_kafka import Producer

from tests.end_to_end.load import value_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from confluent_kafka import KafkaError, Message

OUTSTANDING_MAX = 100
"""Records of a partition without an acknowledgement, so that one leader does not delay others."""

PAUSE_SECONDS = 0.02
PROGRESS_TIMEOUT_SECONDS = 45.0
FLUSH_TIMEOUT_SECONDS = 60.0

# Leaders change often and connections hang: short timeouts, and retries until the test ends.
PATIENCE = {
    "message.timeout.ms": 120_000,
    "socket.timeout.ms": 4_000,
    "topic.metadata.refresh.interval.ms": 1_000,
    "retry.backoff.ms": 50,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 500,
    "log_level": 0,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterKind:
    """Guarantees that a producer asks for."""

    acks: str
    is_idempotent: bool
    compression: str = "none"

    @property
    def keeps_acknowledged(self) -> bool:
        return self.acks == "all"


IDEMPOTENT = WriterKind(acks="all", is_idempotent=True, compression="lz4")
PLAIN = WriterKind(acks="all", is_idempotent=False)
LEADER_ONLY = WriterKind(acks="1", is_idempotent=False)


@dataclass(slots=True)
class Stream:
    """Numbered records of one producer in one partition."""

    id: int
    kind: WriterKind
    partition: int
    count: int = 0
    acknowledged: dict[int, int] = field(default_factory=dict)
    """Offsets by record number."""
    failures: list[str] = field(default_factory=list)
    outstanding: int = 0

    def delivered(self, number: int) -> Callable[[KafkaError | None, Message], None]:
        def record(error: KafkaError | None, message: Message) -> None:
            self.outstanding -= 1
            if error is not None:
                self.failures.append(f"record {number} of stream {self.id}: {error}")
            else:
                offset = message.offset()
                if offset is not None:  # unknown for a duplicate of an old batch
                    self.acknowledged[number] = offset

        return record


class Workload:
    """One producer per kind, each in its own thread, writing to all partitions of a topic."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int,
        kinds: tuple[WriterKind, ...] = (IDEMPOTENT, PLAIN, LEADER_ONLY),
    ) -> None:
        self.topic = topic
        self.streams: list[Stream] = []
        self._stopping = threading.Event()
        self._threads = []
        for number, kind in enumerate(kinds):
            streams = [Stream(10 * number + index, kind, index) for index in range(partitions)]
            self.streams += streams
            arguments = (bootstrap, kind, streams)
            self._threads.append(threading.Thread(target=self._write, args=arguments))

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.finish()

    def finish(self) -> None:
        """Stops writing and waits for the acknowledgements."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(FLUSH_TIMEOUT_SECONDS + 10)
            assert not thread.is_alive()

    def wait_for_progress(self, records: int = 20) -> None:
        """Waits until each producer has acknowledgements of new records in every partition."""
        goals = {it.id: len(it.acknowledged) + records for it in self.streams}
        deadline = time.monotonic() + PROGRESS_TIMEOUT_SECONDS
        while waiting := [it for it in self.streams if len(it.acknowledged) < goals[it.id]]:
            assert time.monotonic() < deadline, f"no acknowledgements: {_summary(waiting)}"
            time.sleep(PAUSE_SECONDS)

    def by_partition(self) -> dict[int, list[Stream]]:
        streams = defaultdict(list)
        for stream in self.streams:
            streams[stream.partition].append(stream)
        return streams

    def _write(self, bootstrap: str, kind: WriterKind, streams: list[Stream]) -> None:
        producer = Producer(_configuration(bootstrap, kind))
        while not self._stopping.is_set():
            for stream in streams:
                if stream.outstanding < OUTSTANDING_MAX:
                    self._produce(producer, stream)
            producer.poll(0)
            time.sleep(PAUSE_SECONDS)
        producer.flush(FLUSH_TIMEOUT_SECONDS)

    def _produce(self, producer: Producer, stream: Stream) -> None:
        number = stream.count
        stream.count += 1
        stream.outstanding += 1
        producer.produce(
            self.topic,
            value_of(stream.id, number, number * 37 % 400),
            key=b"%d" % stream.id,
            partition=stream.partition,
            on_delivery=stream.delivered(number),
        )


def _configuration(bootstrap: str, kind: WriterKind) -> dict[str, Any]:
    return {
        "bootstrap.servers": bootstrap,
        "acks": kind.acks,
        "enable.idempotence": kind.is_idempotent,
        "compression.type": kind.compression,
        "linger.ms": 5,
        **PATIENCE,
    }


def _summary(streams: list[Stream]) -> str:
    return ", ".join(
        f"stream {it.id} (partition {it.partition}): {len(it.acknowledged)} of {it.count} records"
        f"{', ' + it.failures[-1] if it.failures else ''}"
        for it in streams
    )
