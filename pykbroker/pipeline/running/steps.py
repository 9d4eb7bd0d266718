"""Computes the rows of a step from its inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sql

from pykbroker.pipeline.declaration.values import Session, Source, SqlStep, Window
from pykbroker.pipeline.plan import time_column
from pykbroker.pipeline.running.sources import valid_rows

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from pykbroker.pipeline.declaration.values import Pipeline
    from pykbroker.pipeline.plan import Query


def rows_of(spark: SparkSession, pipeline: Pipeline, query: Query) -> DataFrame:
    """Returns the rows of the last step of a query."""
    frames: dict[str, DataFrame] = {}
    for name in query.steps:
        match step := pipeline.steps[name]:
            case Source():
                frames[name] = valid_rows(spark, pipeline, name)
            case SqlStep():
                frames[name] = selected(spark, step, frames)
            case Window() | Session():
                frames[name] = aggregated(pipeline, step, frames[step.input])
    return frames[query.steps[-1]]


def selected(spark: SparkSession, step: SqlStep, frames: dict[str, DataFrame]) -> DataFrame:
    for name in step.inputs:
        frames[name].createOrReplaceTempView(name)
    try:
        return spark.sql(step.query)
    finally:
        for name in step.inputs:
            spark.catalog.dropTempView(name)


def aggregated(pipeline: Pipeline, step: Window | Session, frame: DataFrame) -> DataFrame:
    """Returns one row per window or session and value of `by`."""
    time = time_column(pipeline, step)
    if step.watermark is not None:
        frame = frame.withWatermark(time, str(step.watermark))
    prefix, span = span_of(step, time)
    measures = [sql.expr(text).alias(name) for name, text in step.aggregates.items()]
    grouped = frame.groupBy(span.alias("_span"), *step.by).agg(*measures)
    return grouped.select(
        sql.col("_span.start").alias(f"{prefix}_start"),
        sql.col("_span.end").alias(f"{prefix}_end"),
        *step.by,
        *step.aggregates,
    )


def span_of(step: Window | Session, time: str) -> tuple[str, Column]:
    if isinstance(step, Session):
        return "session", sql.session_window(time, str(step.gap))
    slide = None if step.slide is None else str(step.slide)
    return "window", sql.window(time, str(step.size), slide)
