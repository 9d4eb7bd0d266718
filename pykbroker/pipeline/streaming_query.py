"""Finds the streaming query of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

QUERY_ID: Final = "sql.streaming.queryId"
"""Local property that Spark sets in the jobs of a query. The id is in the checkpoint."""


class NoStreamingQuery(Exception):
    """Raised for a batch outside of a streaming query, which cannot be identified."""


def query_of(frame: DataFrame) -> str:
    query = frame.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
    if not query:
        raise NoStreamingQuery(
            "this batch is not part of a streaming query; set `query` or `writer` of the target"
        )
    return query
