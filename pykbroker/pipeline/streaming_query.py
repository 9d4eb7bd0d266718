"""Which streaming query a batch belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

QUERY_ID: Final = "sql.streaming.queryId"
"""Spark tells it to the jobs of a query; it lies in the checkpoint and so outlives a restart."""


class NoStreamingQuery(Exception):
    """A batch belongs to no query, so that nobody could tell it from another one."""


def query_of(frame: DataFrame) -> str:
    query = frame.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
    if not query:
        raise NoStreamingQuery(
            "this batch comes from no streaming query; the target must name whose batches these are"
        )
    return query
