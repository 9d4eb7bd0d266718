"""Spark's connector as a client of the suite: batches in both directions, and streams."""

from __future__ import annotations

import os
import sys
from functools import cached_property
from typing import TYPE_CHECKING, Any

from line_program import Options, Program, headers, octets, run, text
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    StringType,
    StructField,
    StructType,
)

from pykbroker.pipeline.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

SETTINGS = {"spark.driver.memory": "1g"}
HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
WRITTEN = StructType(
    [
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("headers", ArrayType(HEADER)),
    ]
)


class Spark(Program):
    client = "pyspark"

    @cached_property
    def session(self) -> SparkSession:
        """Starts Spark at first use, which takes seconds."""
        session = spark_session("compat", master="local[2]", settings=SETTINGS)
        session.sparkContext.setLogLevel("WARN")
        return session

    def read_batch(self, bootstrap: str, topic: str, options: Options | None) -> Options:
        reader = self.session.read.format("kafka").option("includeHeaders", "true")
        frame = _with(reader, bootstrap, options).option("subscribe", topic).load()
        return {"records": [_record(row) for row in _in_order(frame)]}

    def write_batch(self, bootstrap: str, records: list[Options], options: Options | None) -> None:
        rows = [
            (it["topic"], it["partition"], octets(it["key"]), octets(it["value"]), headers(it))
            for it in records
        ]
        frame = self.session.createDataFrame(rows, WRITTEN)
        _with(
            frame.write.format("kafka").option("includeHeaders", "true"), bootstrap, options
        ).save()

    def stream(
        self, bootstrap: str, source: str, sink: str, directory: str, options: Options | None
    ) -> None:
        """Copies existing records from topic to topic, with a checkpoint."""
        reader = self.session.readStream.format("kafka").option("includeHeaders", "true")
        frame = _with(reader, bootstrap, options).option("subscribe", source).load()
        chosen = frame.select("key", "value", "headers")
        writer = chosen.writeStream.format("kafka").option("includeHeaders", "true")
        query = (
            _with(writer, bootstrap, None)
            .option("topic", sink)
            .option("checkpointLocation", directory)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    def code_of(self, error: BaseException) -> str:  # noqa: ARG002 (Spark's errors have no code)
        return "CLIENT"


def _with(target: Any, bootstrap: str, options: Options | None) -> Any:
    target = target.option("kafka.bootstrap.servers", bootstrap)
    for name, value in (options or {}).items():
        target = target.option(name, value)
    return target


def _in_order(frame: DataFrame) -> list[Row]:
    return sorted(frame.collect(), key=lambda it: (it.topic, it.partition, it.offset))


def _record(row: Row) -> Options:
    return {
        "topic": row.topic,
        "partition": row.partition,
        "offset": row.offset,
        "timestamp_ms": round(row.timestamp.timestamp() * 1000),
        "key": text(row.key),
        "value": text(row.value),
        "headers": [[it.key, text(it.value)] for it in row.headers or ()],
    }


if __name__ == "__main__":
    responses = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # output of the JVM is not a response
    sys.stdout = responses
    run(Spark())
