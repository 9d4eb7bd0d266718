"""Queries of a pipeline and their steps, sources and guarantees."""

from pykbroker.pipeline.declaration.durations import Duration
from pykbroker.pipeline.declaration.reading import declare
from pykbroker.pipeline.declaration.values import Guarantee, OutputMode, Pipeline
from pykbroker.pipeline.plan import (
    aggregates_of,
    guarantee_of,
    needs_avro,
    needs_delta,
    queries_of,
    sources_of,
    steps_in_order,
    time_column,
)


def pipeline(**changes: object) -> Pipeline:
    return declare(
        {
            "name": "fleet",
            "checkpoint": "checkpoint",
            "every": "5 seconds",
            "source": {
                "trucks": {
                    "topics": ["trucks"],
                    "format": "json",
                    "schema": {"truck_id": "string", "at": "timestamp"},
                    "dead_letters": "broken",
                    "event_time": "at",
                    "watermark": "1 minute",
                },
                "depots": {"topics": ["depots"], "format": "raw"},
            },
            "sql": {
                "near": {
                    "inputs": ["depots", "trucks"],
                    "query": "SELECT truck_id, at FROM trucks JOIN depots ON true",
                }
            },
            "window": {
                "visits": {"input": "near", "size": "1 hour", "aggregates": {"n": "count(*)"}}
            },
            "archive": {"raw": {"source": "trucks", "path": "lake", "every": "1 minute"}},
            "sink": {
                "visits": {"input": "visits", "kind": "topic", "topic": "out", "mode": "update"},
                "trucks": {"input": "trucks", "kind": "console"},
            },
        }
        | changes
    )


def test_each_sink_archive_and_dead_letter_topic_is_a_query() -> None:
    assert [(query.name, query.steps) for query in queries_of(pipeline())] == [
        ("archive.raw", ("trucks",)),
        ("dead_letters.trucks", ("trucks",)),
        ("sink.visits", ("depots", "trucks", "near", "visits")),
        ("sink.trucks", ("trucks",)),
    ]


def test_interval_of_a_query_defaults_to_that_of_the_pipeline() -> None:
    assert [str(query.every) for query in queries_of(pipeline())] == [
        "1 minute", "5 seconds", "5 seconds", "5 seconds",
    ]  # fmt: skip


def test_steps_follow_their_inputs() -> None:
    declared = pipeline(
        sql={
            "last": {"inputs": ["first", "trucks"], "query": "SELECT * FROM first, trucks"},
            "first": {"inputs": ["depots"], "query": "SELECT * FROM depots"},
        },
        window={},
        sink={"out": {"input": "last", "kind": "memory"}},
    )
    assert steps_in_order(declared, "last") == ("depots", "first", "trucks", "last")


def test_sources_and_aggregates_of_a_query() -> None:
    declared = pipeline()
    visits = queries_of(declared)[2]
    assert sources_of(declared, visits) == ("depots", "trucks")
    assert list(aggregates_of(declared, visits)) == ["visits"]
    assert visits.mode is OutputMode.UPDATE


def test_time_of_an_aggregate_defaults_to_that_of_its_source() -> None:
    declared = pipeline()
    assert time_column(declared, declared.window["visits"]) == "at"


def test_topics_are_written_exactly_once_by_default() -> None:
    guarantees = [guarantee_of(query.target) for query in queries_of(pipeline())]
    assert guarantees == [None, Guarantee.EXACTLY_ONCE, Guarantee.EXACTLY_ONCE, None]


def test_delta_and_avro_are_needed_only_if_declared() -> None:
    plain = pipeline()
    assert (needs_delta(plain), needs_avro(plain)) == (False, False)
    lake = pipeline(archive={"raw": {"source": "trucks", "path": "lake", "format": "delta"}})
    assert needs_delta(lake)
    assert needs_delta(
        pipeline(sink={"out": {"input": "near", "kind": "delta", "path": "table"}}, window={})
    )
    avro = {"topics": ["a"], "format": "avro", "avro_schema": '{"type": "string"}'}
    assert needs_avro(pipeline(source=dict(plain_tables(), avro=avro)))


def plain_tables() -> dict[str, object]:
    return {
        "trucks": {
            "topics": ["trucks"],
            "format": "json",
            "schema": {"truck_id": "string", "at": "timestamp"},
            "event_time": "at",
            "watermark": "1 minute",
        },
        "depots": {"topics": ["depots"], "format": "raw"},
    }


def test_interval_may_be_zero() -> None:
    assert queries_of(pipeline(every="0 seconds"))[3].every == Duration(0)
