"""Spark with two cores: counts a topic, streams it to the noop sink, writes another topic."""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from benchmarks import process_usage
from pykbroker.pipeline.session import READ_OPTIONS, spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VALUE_BYTES = 100
STREAM_SECONDS_MAX = 300
SETTINGS = {"spark.driver.memory": "1g", "spark.log.level": "OFF"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bootstrap")
    parser.add_argument("broker_pid", type=int)
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("records", type=int)
    parser.add_argument("written", type=int)
    asked = parser.parse_args()
    spark = spark_session("benchmark", master="local[2]", settings=SETTINGS)
    work = Work(spark, asked.bootstrap, asked.source, asked.target)
    work.warm_up()
    numbers: dict[str, float] = {}
    for name, expected, act in (
        ("count_default", asked.records, lambda: work.count({})),
        ("count_tuned", asked.records, lambda: work.count(READ_OPTIONS)),
        ("stream_default", asked.records, work.stream),
        ("write", asked.written, lambda: work.write(asked.written)),
    ):
        with measured(name, asked.broker_pid, numbers):
            found = act()  # type: ignore[no-untyped-call]  # one of them has no types
        if found != expected:
            raise SystemExit(f"{name}: {found} records instead of {expected}")
    print(json.dumps(numbers))


class Work:
    """The measured jobs, one per method."""

    def __init__(self, spark: "SparkSession", bootstrap: str, source: str, target: str) -> None:
        self.spark = spark
        self.broker = {"kafka.bootstrap.servers": bootstrap}
        self.source, self.target = source, target

    def warm_up(self) -> None:
        """Runs each job once before the measurement, because the JVM compiles hot code."""
        self.count({})
        self.count(READ_OPTIONS)
        self.stream(bounded_to=100_000)
        self.write(10_000)

    def count(self, options: dict[str, str]) -> int:
        chosen = {**self.broker, **options, "subscribe": self.source}
        return self.spark.read.format("kafka").options(**chosen).load().count()

    def stream(self, bounded_to: int | None = None) -> int:
        """Streams the source to the noop sink; returns the number of rows it reports."""
        chosen = {**self.broker, "subscribe": self.source, "startingOffsets": "earliest"}
        if bounded_to is not None:
            chosen["maxOffsetsPerTrigger"] = str(bounded_to)
        frame = self.spark.readStream.format("kafka").options(**chosen).load()
        with tempfile.TemporaryDirectory() as checkpoint:
            writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
            trigger = {"once": True} if bounded_to is not None else {"availableNow": True}
            query = writer.trigger(**trigger).start()
            if not query.awaitTermination(STREAM_SECONDS_MAX):
                raise SystemExit("the stream did not end in time")
            return sum(progress.numInputRows for progress in query.recentProgress)

    def write(self, records: int) -> int:
        rows = self.spark.range(records).selectExpr(
            "concat('truck-', id % 10000) AS key",
            f"rpad(cast(id AS string), {VALUE_BYTES}, 'x') AS value",
        )
        rows.write.format("kafka").options(**self.broker, topic=self.target).save()
        return records


@contextmanager
def measured(name: str, broker_pid: int, numbers: dict[str, float]) -> Iterator[None]:
    """Measures wall time, and CPU time of the broker and of Spark including its JVM."""
    readings: tuple[tuple[str, Callable[[], float]], ...] = (
        ("broker_cpu", lambda: process_usage.cpu_seconds(broker_pid)),
        ("spark_cpu", lambda: process_usage.cpu_seconds(os.getpid())),
        ("wall", time.perf_counter),
    )
    before = {reading: read() for reading, read in readings}
    yield
    for reading, read in reversed(readings):
        numbers[f"{name}_{reading}_seconds"] = read() - before[reading]


if __name__ == "__main__":
    main()
