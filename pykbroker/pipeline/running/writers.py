"""Writes the rows of a batch to each kind of target."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeAlias

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from pyspark.sql import functions as sql

from pykbroker.pipeline.archive.batches import archive_batch
from pykbroker.pipeline.archive.target import ArchiveFormat, ArchiveTarget
from pykbroker.pipeline.client_properties import librdkafka_properties, librdkafka_settings
from pykbroker.pipeline.declaration.values import (
    Archive,
    Guarantee,
    OutputMode,
    Sink,
    SinkKind,
)
from pykbroker.pipeline.exactly_once import publish_batch
from pykbroker.pipeline.plan import DeadLetters, guarantee_of
from pykbroker.pipeline.running.sources import RECORD_COLUMNS, broken_rows, records
from pykbroker.pipeline.running.steps import rows_of
from pykbroker.pipeline.topic_target import TopicTarget

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import Column, DataFrame, Row, SparkSession

    from pykbroker.pipeline.declaration.values import Pipeline
    from pykbroker.pipeline.locations import Locations
    from pykbroker.pipeline.plan import Query

Write: TypeAlias = "Callable[[DataFrame, int], None]"
"""Writes the rows of a batch; depending on the target, a repeated batch has no effect."""

SHOWN_ROWS: Final = 20
RECORD_BYTES_MAX_DEFAULT: Final = 1_048_588
"""Default of `max.message.bytes`."""
CONFIG_TIMEOUT_SECONDS: Final = 10.0
REQUEST_BYTES_MAX: Final = 32 << 20
"""Buffer size of the Java producer; the broker limits the size of records."""
SOURCE_COLUMN_NAMES: Final = {
    "_topic": "source_topic",
    "_partition": "source_partition",
    "_offset": "source_offset",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Rows of `memory` sinks, by sink and batch."""

    batches: dict[str, dict[int, list[Row]]] = field(default_factory=dict)

    def rows(self, sink: str) -> list[Row]:
        """Returns all rows of a sink in the order of batches."""
        batches = self.batches.get(sink, {})
        return [row for batch_id in sorted(batches) for row in batches[batch_id]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Writers:
    """Creates the rows and the write function of each query."""

    spark: SparkSession
    pipeline: Pipeline
    locations: Locations
    memory: Memory

    def frame(self, query: Query) -> DataFrame:
        """Returns the stream of rows for the target of a query."""
        match query.target:
            case Archive():
                return records(self.spark, self.pipeline, query.target.source)
            case DeadLetters():
                limit = record_bytes_max(self._client, query.target.topic)
                return broken_rows(self.spark, self.pipeline, query.target.source, limit)
            case Sink(kind=SinkKind.TOPIC):
                return as_records(rows_of(self.spark, self.pipeline, query), query.target)
            case Sink():
                return rows_of(self.spark, self.pipeline, query)

    @property
    def _client(self) -> dict[str, str]:
        known = librdkafka_properties(librdkafka_settings(self.pipeline.kafka))
        return {**known, "bootstrap.servers": self.pipeline.bootstrap}

    def write(self, query: Query, identity: str) -> Write:
        """Returns the function that writes a batch; `identity` identifies the checkpoint."""
        target = query.target
        if isinstance(target, Archive):
            return self._archive(target)
        if isinstance(target, DeadLetters) or target.kind is SinkKind.TOPIC:
            return self._publish(query)
        match target.kind:
            case SinkKind.PARQUET:
                return self._parquet(target, identity)
            case SinkKind.DELTA:
                return self._delta(target, identity)
            case SinkKind.CONSOLE:
                return show(query.name)
            case _:
                return self._collect(query.name.partition(".")[2])

    def _archive(self, archive: Archive) -> Write:
        target = ArchiveTarget(
            path=self.locations.resolve(archive.path),
            format=ArchiveFormat(archive.format.value),
            skip_archived=archive.skip_archived,
            files_per_day_max=archive.files_per_day_max,
            staging=None if archive.staging is None else self.locations.resolve(archive.staging),
        )
        return lambda frame, batch_id: archive_batch(frame, batch_id, target)

    def _publish(self, query: Query) -> Write:
        assert isinstance(query.target, Sink | DeadLetters)
        topic = query.target.topic
        assert topic is not None, "sinks of this kind have a topic"
        own = query.target.kafka if isinstance(query.target, Sink) else {}
        if guarantee_of(query.target) is Guarantee.AT_LEAST_ONCE:
            return publish_at_least_once(
                topic, self.pipeline.bootstrap, {**self.pipeline.kafka, **own}
            )
        target = TopicTarget(
            bootstrap=self.pipeline.bootstrap,
            topic=topic,
            settings={**librdkafka_settings(self.pipeline.kafka), **own},
        )
        return publish_exactly_once(target)

    def _parquet(self, sink: Sink, identity: str) -> Write:
        """Writes each batch to its own directory; a repeated batch overwrites it."""
        directory = self.locations.resolve(sink.path or "")

        def write(frame: DataFrame, batch_id: int) -> None:
            frame.write.mode("overwrite").parquet(f"{directory}/batch={identity}-{batch_id:010d}")

        return write

    def _delta(self, sink: Sink, identity: str) -> Write:
        """Writes to a table, which stores the last batch of each writer and skips repeated ones."""
        directory = self.locations.resolve(sink.path or "")
        mode = "overwrite" if sink.mode is OutputMode.COMPLETE else "append"

        def write(frame: DataFrame, batch_id: int) -> None:
            once = {"txnAppId": identity, "txnVersion": str(batch_id)}
            frame.write.format("delta").mode(mode).options(**once).save(directory)

        return write

    def _collect(self, sink: str) -> Write:
        batches = self.memory.batches.setdefault(sink, {})

        def write(frame: DataFrame, batch_id: int) -> None:
            batches[batch_id] = frame.collect()

        return write


def record_bytes_max(client: Mapping[str, str], topic: str) -> int:
    """Returns `max.message.bytes` of the topic, or its default if the request fails."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    admin = AdminClient(dict(client))  # must outlive the future
    try:
        responses = admin.describe_configs([resource], request_timeout=CONFIG_TIMEOUT_SECONDS)
        limit = responses[resource].result()["max.message.bytes"].value
        return int(limit or RECORD_BYTES_MAX_DEFAULT)
    except KafkaException:
        return RECORD_BYTES_MAX_DEFAULT


def as_records(frame: DataFrame, sink: Sink) -> DataFrame:
    """Returns key, value and headers of each row, and its source columns if present."""
    own = [name for name in frame.columns if name not in RECORD_COLUMNS]
    value = sql.to_json(sql.struct(*own)) if sink.value is None else sql.expr(sink.value)
    columns = {"value": value}
    if sink.key is not None:
        columns["key"] = sql.expr(sink.key)
    if sink.headers:
        columns["headers"] = header_column(sink)
    if all(frame.columns.count(name) == 1 for name in SOURCE_COLUMN_NAMES):
        columns |= {name: sql.col(known) for known, name in SOURCE_COLUMN_NAMES.items()}
    rows = frame.select(*(column.alias(name) for name, column in columns.items()))
    return with_string_columns(rows)


def header_column(sink: Sink) -> Column:
    return sql.array(
        *(
            sql.struct(
                sql.lit(name).alias("key"),
                sql.expr(text).cast("string").cast("binary").alias("value"),
            )
            for name, text in sink.headers.items()
        )
    )


def with_string_columns(rows: DataFrame) -> DataFrame:
    """Casts keys and values that are neither strings nor bytes to strings."""
    for name, kind in rows.dtypes:
        if name in {"key", "value"} and kind not in {"string", "binary"}:
            rows = rows.withColumn(name, sql.col(name).cast("string"))
    return rows


def publish_exactly_once(target: TopicTarget) -> Write:
    by_value = replace(target, slot_by=("value",))

    def write(frame: DataFrame, batch_id: int) -> None:
        has_slot_columns = "source_topic" in frame.columns or "key" in frame.columns
        publish_batch(frame, batch_id, target if has_slot_columns else by_value)

    return write


def publish_at_least_once(topic: str, bootstrap: str, settings: Mapping[str, str]) -> Write:
    options = {"kafka.max.request.size": str(REQUEST_BYTES_MAX)}
    options |= {f"kafka.{key}": value for key, value in settings.items()}
    options |= {"kafka.bootstrap.servers": bootstrap, "topic": topic}

    def write(frame: DataFrame, _: int) -> None:
        frame.drop(*SOURCE_COLUMN_NAMES.values()).write.format("kafka").options(**options).save()

    return write


def show(name: str) -> Write:
    def write(frame: DataFrame, batch_id: int) -> None:
        rows = frame.persist()
        print(f"{name}, batch {batch_id}, {rows.count():,} rows:")  # noqa: T201  # output of a console sink
        rows.show(SHOWN_ROWS, truncate=False)
        rows.unpersist()

    return write
