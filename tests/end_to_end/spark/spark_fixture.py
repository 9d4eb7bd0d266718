"""Fixture of Spark scenarios: Spark session, broker, and clients that prepare topics."""

from __future__ import annotations

import itertools
import json
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import KafkaException, NewTopic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.streaming import DataStreamReader, StreamingQuery

TIMEOUT_S = 120.0
_POLL_S = 0.1
_numbers = itertools.count()


class Broker(Protocol):
    """A broker process, PyKBroker or Apache Kafka."""

    @property
    def bootstrap(self) -> str: ...
    def start(self) -> object: ...
    def stop(self) -> object: ...
    def kill(self) -> None: ...


class Position(NamedTuple):
    """Partition and offset of a record."""

    partition: int
    offset: int


@dataclass(slots=True)
class Batches:
    """A sink that collects the positions of all records of each batch, including duplicates."""

    positions: list[list[Position]] = field(default_factory=list)

    def __call__(self, batch: DataFrame, _number: int) -> None:
        rows = batch.select("partition", "offset").collect()
        self.positions.append([Position(row.partition, row.offset) for row in rows])

    @property
    def all(self) -> list[Position]:
        return [position for batch in self.positions for position in batch]

    @property
    def sizes(self) -> list[int]:
        return [len(batch) for batch in self.positions if batch]

    def summary(self) -> dict[str, int]:
        """Returns the number of rows and of distinct positions; the difference is duplicates."""
        return {"rows": len(self.all), "positions": len(set(self.all))}


@dataclass(slots=True)
class SparkFixture:
    """A Spark session, a broker, and a directory for checkpoints."""

    spark: SparkSession
    broker: Broker
    scratch: Path
    admin: AdminClient = field(init=False)
    _filled: str = ""

    def __post_init__(self) -> None:
        # Kept for the lifetime of the fixture: pending results are lost with the client.
        self.admin = AdminClient({"bootstrap.servers": self.broker.bootstrap})

    # -- topics

    def name(self, stem: str) -> str:
        """Returns a unique name."""
        return f"{stem}-{next(_numbers)}"

    def topic(self, partitions: int = 1, stem: str = "t") -> str:
        name = self.name(stem)
        self.create(name, partitions)
        return name

    def create(self, name: str, partitions: int = 1) -> None:
        new = NewTopic(name, num_partitions=partitions, replication_factor=1)
        settle(self.admin.create_topics([new]))

    def delete(self, name: str) -> None:
        """Deletes a topic and waits until Metadata does not list it."""
        settle(self.admin.delete_topics([name]))
        wait_until(lambda: name not in self.admin.list_topics(timeout=TIMEOUT_S).topics)

    def filled(self) -> str:
        """Returns a topic with 5,000 records in 10 partitions, shared by reading scenarios."""
        if not self._filled:
            self._filled = self.topic(10, "filled")
            self.write_numbers(self._filled, 5000, partitions=10)
        return self._filled

    def write_numbers(
        self,
        topic: str,
        count: int,
        *,
        partitions: int = 1,
        since_ms: int | None = None,
        step_ms: int = 0,
        settings: dict[str, object] | None = None,
    ) -> None:
        """Writes `count` records to the partitions in turn, with timestamps `step_ms` apart."""
        producer = self.producer(**settings or {})
        for number in range(count):
            time_ms = 0 if since_ms is None else since_ms + number * step_ms
            value = json.dumps({"number": number, "truck": f"truck-{number % 20}"})
            producer.produce(
                topic,
                value,
                key=f"truck-{number % 20}",
                partition=number % partitions,
                timestamp=time_ms,
            )
        producer.flush(TIMEOUT_S)

    def producer(self, **settings: object) -> Producer:
        bootstrap = {"bootstrap.servers": self.broker.bootstrap, "linger.ms": 5}
        return Producer({**bootstrap, **settings})

    # -- Spark

    def reader(self, **options: object) -> DataFrameReader:
        return self.spark.read.format("kafka").options(**self._options(options))

    def read(self, topic: str, **options: object) -> DataFrame:
        return self.reader(subscribe=topic, **options).load()

    def streamer(self, **options: object) -> DataStreamReader:
        return self.spark.readStream.format("kafka").options(**self._options(options))

    def stream(self, topic: str, **options: object) -> DataFrame:
        """Returns a stream that starts at the earliest offsets by default."""
        chosen = {"startingOffsets": "earliest", **options}
        return self.streamer(subscribe=topic, **chosen).load()

    def write(self, frame: DataFrame, topic: str | None = None, **options: object) -> None:
        named = {"topic": topic} if topic else {}
        frame.write.format("kafka").options(**self._options({**named, **options})).save()

    def numbers(self, count: int) -> DataFrame:
        return self.spark.range(count).selectExpr(
            "cast(id % 20 as string) AS key", "cast(id as string) AS value"
        )

    def _options(self, options: dict[str, object]) -> dict[str, str]:
        """Returns the options of Spark; `kafka__acks` stands for `kafka.acks`."""
        named = {name.replace("__", "."): str(value) for name, value in options.items()}
        return {"kafka.bootstrap.servers": self.broker.bootstrap, **named}

    def drain(self, frame: DataFrame, checkpoint: str = "") -> Batches:
        """Streams all available records and stops."""
        batches = Batches()
        self.run_once(frame, batches, checkpoint)
        return batches

    def run_once(
        self, frame: DataFrame, sink: Callable[[DataFrame, int], None], checkpoint: str = ""
    ) -> StreamingQuery:
        writer = frame.writeStream.foreachBatch(sink).trigger(availableNow=True)
        query = writer.option("checkpointLocation", self.checkpoint(checkpoint)).start()
        try:
            assert query.awaitTermination(int(TIMEOUT_S)), "the stream did not end"
        finally:
            query.stop()
        return query

    @contextmanager
    def running(self, frame: DataFrame, sink: Batches) -> Iterator[StreamingQuery]:
        """Runs a stream until the context manager exits."""
        writer = frame.writeStream.foreachBatch(sink).trigger(processingTime="200 milliseconds")
        query = writer.option("checkpointLocation", self.checkpoint()).start()
        try:
            yield query
        finally:
            query.stop()

    def checkpoint(self, name: str = "") -> str:
        return str(self.scratch / (name or self.name("checkpoint")))


def settle(futures: dict[Any, Any]) -> None:
    for future in futures.values():
        future.result(TIMEOUT_S)


def wait_until(condition: Callable[[], bool], query: StreamingQuery | None = None) -> None:
    """Polls a condition until it is true. Raises if the query fails meanwhile."""
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        if query is not None and (failure := query.exception()) is not None:
            raise AssertionError(f"the query failed: {failure}")
        assert time.monotonic() < deadline, "timed out"
        time.sleep(_POLL_S)


def count_when_settled(frame: Callable[[], DataFrame], at_least: int) -> int:
    """Waits for enough rows and returns their number; with acks=0 they arrive later."""
    wait_until(lambda: frame().count() >= at_least)
    return frame().count()


def phrase_in(error: BaseException, *phrases: str) -> str:
    """Returns the phrase that occurs in the error, or the complete error text."""
    text = f"{error}"
    return next((phrase for phrase in phrases if phrase in text), text)


def when_possible(act: Callable[[], object]) -> None:
    """Repeats an action until the broker accepts it."""
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        with suppress(KafkaException):
            act()
            return
        time.sleep(_POLL_S)
    act()
