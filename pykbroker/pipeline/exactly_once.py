"""Publishes a batch to a topic exactly once; called by Spark's `foreachBatch`."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from pyspark import TaskContext
from pyspark.sql import functions as sql

from pykbroker.pipeline.exactly_once_output import TopicOutput
from pykbroker.pipeline.exactly_once_slot_count import decide_slot_count
from pykbroker.pipeline.exactly_once_slots import Outgoing, SlotOfBatch, publish_slot
from pykbroker.pipeline.streaming_query import query_of
from pykbroker.pipeline.topic_target import SOURCE_COLUMNS, CannotPublish

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark.sql import Column, DataFrame, Row

    from pykbroker.pipeline.topic_target import TopicTarget

OUTGOING: Final = {
    "key": "binary",
    "value": "binary",
    "headers": "array<struct<key: string, value: binary>>",
    "partition": "int",
}


def publish_batch(frame: DataFrame, batch_id: int, target: TopicTarget) -> None:
    """Publishes the rows of a batch. A repeated batch publishes only its missing slots."""
    output = TopicOutput(target=target, query=target.query or query_of(frame))
    slot_by = slot_columns(frame, target)
    slots = decide_slot_count(output, batch_id)
    slot = sql.pmod(sql.hash(*slot_by), sql.lit(slots)).cast("int")
    # repartition() uses the same hash, so each task gets one slot.
    repartitioned = frame.withColumn("_slot", slot).repartition(slots, *slot_by)
    ordered = repartitioned.sortWithinPartitions(*order_columns(frame, target) or ["_slot"])
    rows = ordered.select(*outgoing_columns(frame), "_slot")
    rows.foreachPartition(slot_publisher(output, batch_id, slots))


def slot_columns(frame: DataFrame, target: TopicTarget) -> tuple[str, ...]:
    if target.slot_by:
        return target.slot_by
    if has_source(frame):
        return SOURCE_COLUMNS[:2]
    if "key" not in frame.columns:
        raise CannotPublish(
            "rows without a key need the columns"
            f" {', '.join(SOURCE_COLUMNS)}, or the target needs slot_by"
        )
    return ("key",)


def order_columns(frame: DataFrame, target: TopicTarget) -> tuple[str, ...]:
    return target.order_by or (SOURCE_COLUMNS if has_source(frame) else ())


def has_source(frame: DataFrame) -> bool:
    return set(SOURCE_COLUMNS) <= set(frame.columns)


def outgoing_columns(frame: DataFrame) -> list[Column]:
    """Returns the columns of a record; missing ones are null."""
    if "value" not in frame.columns:
        raise CannotPublish("the rows do not have a column `value`")
    given = {name: sql.col(name) for name in frame.columns}
    columns = [
        given.get(name, sql.lit(None)).cast(kind).alias(name) for name, kind in OUTGOING.items()
    ]
    time = sql.unix_millis(given["timestamp"]) if "timestamp" in given else sql.lit(None)
    return [*columns, time.cast("long").alias("timestamp_ms")]


def slot_publisher(
    output: TopicOutput, batch_id: int, slots: int
) -> Callable[[Iterator[Row]], None]:
    """Returns the function that publishes the rows of a task."""

    def publish(rows: Iterator[Row]) -> None:
        first = next(rows, None)
        if first is None:
            return
        context = TaskContext.get()
        assert context is not None, "only tasks publish"
        number = context.partitionId()
        slot = SlotOfBatch(output=output, batch_id=batch_id, slot=number, slots=slots)
        publish_slot(slot, outgoing(chain([first], rows), number))

    return publish


def outgoing(rows: Iterable[Any], slot: int) -> Iterator[Outgoing]:
    for key, value, headers, partition, timestamp_ms, row_slot in rows:
        assert row_slot == slot, f"a row of slot {row_slot} is in slot {slot}"
        yield Outgoing(
            key=optional_bytes(key),
            value=optional_bytes(value),
            headers=[(name, optional_bytes(content)) for name, content in headers or ()],
            partition=partition,
            timestamp_ms=timestamp_ms,
        )


def optional_bytes(content: bytearray | None) -> bytes | None:
    """Converts binary columns: Spark's workers pass bytearray, the client needs bytes."""
    return None if content is None else bytes(content)
