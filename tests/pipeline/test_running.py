"""Pipelines run on a local Spark session against an embedded broker."""

import json
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyarrow import parquet

from pykbroker import Broker, Row, Topic
from pykbroker.pipeline.declaration.reading import declare
from pykbroker.pipeline.fingerprint import DefinitionChanged
from pykbroker.pipeline.running.failures import PipelineFailed
from pykbroker.pipeline.running.run import PipelineRun
from pykbroker.pipeline.running.sources import DEAD_LETTER_BYTES, parsed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pykbroker.pipeline.progress import Progress

TIMEOUT_S = 300.0

Tables = dict[str, Any]


@pytest.fixture(scope="module")
def _broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def broker(_broker: Broker) -> Broker:
    _broker.reset({"trucks": 2, "out": 1, "broken": 1})
    return _broker


def tables(broker: Broker, **changes: Any) -> Tables:
    """A pipeline that reads reports of trucks, with more tables of the test."""
    return {
        "name": "fleet",
        "bootstrap": broker.bootstrap,
        "checkpoint": "checkpoint",
        "every": "0 seconds",
        "source": {"trucks": source()},
    } | changes


def source(**changes: Any) -> Tables:
    table = {
        "topics": ["trucks"],
        "format": "json",
        "schema": {"truck": "string", "at": "timestamp", "speed": "double"},
        "required": ["truck", "at"],
        "dead_letters": "broken",
        "event_time": "at",
        "watermark": "0 seconds",
    } | changes
    return {name: value for name, value in table.items() if value is not None}


def report(truck: str, at: str, speed: float = 80.0) -> str:
    return json.dumps({"truck": truck, "at": f"2026-11-18T{at}Z", "speed": speed})


def once(spark: "SparkSession", declared: Tables, directory: Path) -> PipelineRun:
    """Runs the pipeline until all existing records are processed."""
    with PipelineRun(spark, declare(declared), directory=directory, once=True) as run:
        run.wait()
    return run


def test_broken_records_go_to_dead_letters_and_valid_ones_to_every_sink(
    spark: "SparkSession", broker: Broker, tmp_path: Path
) -> None:
    broker.produce(
        "trucks", [report("a", "10:00:00"), report("b", "10:00:10", 95.5)], key=lambda _: "k"
    )
    broker.produce("trucks", ['{"truck": "c"}', "{nonsense", report("d", "soon")], partition=1)
    reported: list[Progress] = []
    declared = declare(
        tables(
            broker,
            source={"trucks": source(dead_letters_guarantee="at-least-once")},
            sql={
                "fast": {
                    "inputs": ["trucks"],
                    "query": "SELECT truck, speed, _offset FROM trucks WHERE speed > 90",
                }
            },
            sink={
                "all": {"input": "trucks", "kind": "memory"},
                "fast": {
                    "input": "fast",
                    "kind": "topic",
                    "topic": "out",
                    "key": "truck",
                    "headers": {"speed": "speed"},
                },
            },
        )
    )
    with PipelineRun(
        spark, declared, directory=tmp_path, once=True, on_progress=reported.append
    ) as run:
        run.wait()

    assert sorted((row.truck, row._key, row._topic) for row in run.rows("all")) == [
        ("a", "k", "trucks"),
        ("b", "k", "trucks"),
    ]
    [fast] = broker.records("out")
    assert (fast.key, json.loads(fast.value or b"")) == (b"b", {"truck": "b", "speed": 95.5})
    assert dict(fast.headers) == {"speed": b"95.5"}
    letters = {letter.value: dict(letter.headers) for letter in broker.records("broken")}
    assert {
        value: (headers["dlq.reason"] or b"").decode() for value, headers in letters.items()
    } == {
        b'{"truck": "c"}': "at is missing",
        b"{nonsense": "value does not match the json schema",
        report("d", "soon").encode(): "value does not match the json schema",
    }
    origin = {
        name: letters[b"{nonsense"][f"dlq.{name}"] for name in ("topic", "partition", "offset")
    }
    assert origin == {"topic": b"trucks", "partition": b"1", "offset": b"1"}
    assert {it.query: it.rows for it in reported} == {
        "sink.all": 5,
        "sink.fast": 5,
        "dead_letters.trucks": 5,
    }


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
def test_too_large_dead_letter_is_truncated_and_has_a_header(
    spark: "SparkSession", broker: Broker, tmp_path: Path, guarantee: str
) -> None:
    broker.reset({"trucks": 1, "broken": Topic(1, config={"max.message.bytes": "20000"})})
    broker.produce("trucks", [Row(size * "x", key="k", headers={"h": "1"}) for size in (9, 50_000)])
    letters = source(dead_letters_guarantee=guarantee)
    once(spark, tables(broker, source={"trucks": letters}), tmp_path)
    whole, cut = broker.records("broken")
    assert (whole.value, dict(whole.headers).get("dlq.cut_from_bytes")) == (9 * b"x", None)
    assert dict(cut.headers)["dlq.cut_from_bytes"] == b"50000"
    assert cut.value == (20_000 - DEAD_LETTER_BYTES - 1 - 16 - 2) * b"x"
    assert cut.headers[0] == ("h", b"1")


AGGREGATES: Tables = {
    "window": {
        "means": {
            "input": "trucks",
            "size": "1 minute",
            "by": ["truck"],
            "aggregates": {"reports": "count(*)", "mean": "avg(speed)"},
        }
    },
    "session": {
        "drives": {
            "input": "trucks",
            "gap": "30 seconds",
            "by": ["truck"],
            "aggregates": {"reports": "count(*)"},
        }
    },
    "sink": {
        "means": {"input": "means", "kind": "parquet", "path": "means"},
        "drives": {"input": "drives", "kind": "memory"},
    },
}


def test_aggregates_continue_from_the_checkpoint_unless_their_definition_changed(
    spark: "SparkSession", broker: Broker, tmp_path: Path
) -> None:
    declared = tables(broker, source={"trucks": source(dead_letters=None)}, **AGGREGATES)
    broker.produce("trucks", [report("a", "10:00:00", 80), report("a", "10:00:20", 90)])
    first = once(spark, declared, tmp_path)
    broker.produce("trucks", [report("a", "10:00:40", 100), report("b", "10:05:00", 70)])
    second = once(spark, declared, tmp_path)

    assert first.rows("drives") == []
    assert [(it.truck, it.reports, str(it.session_end)) for it in second.rows("drives")] == [
        ("a", 3, "2026-11-18 10:01:10")
    ]
    means = parquet.read_table(tmp_path / "means").to_pylist()
    assert [(it["truck"], it["reports"], it["mean"]) for it in means] == [("a", 3, 90.0)]

    longer = {"drives": AGGREGATES["session"]["drives"] | {"gap": "40 seconds"}}
    with pytest.raises(DefinitionChanged, match=r"session\.drives\.gap was 30 seconds and is 40"):
        once(spark, declared | {"session": longer}, tmp_path)
    assert spark.streams.active == []


def test_stopped_pipeline_ends_its_batch_and_continues_after_a_restart(
    spark: "SparkSession", broker: Broker, tmp_path: Path
) -> None:
    declared = tables(
        broker,
        source={"letters": {"topics": ["trucks"], "format": "raw", "batch_records_max": 5}},
        sink={"letters": {"input": "letters", "kind": "memory"}},
    )
    broker.produce("trucks", [str(number) for number in range(60)])
    begun, stop = threading.Event(), threading.Event()
    run = PipelineRun(
        spark, declare(declared), directory=tmp_path, on_progress=lambda _: begun.set()
    )

    def stop_when_begun() -> None:
        begun.wait(TIMEOUT_S)
        stop.set()

    with run:
        stopper = threading.Thread(target=stop_when_begun)
        stopper.start()
        run.wait(stop)
        stopper.join()
    rest = once(spark, declared, tmp_path)

    taken = [row.value for row in run.rows("letters")]
    assert taken
    assert sorted(taken + [row.value for row in rest.rows("letters")]) == sorted(
        str(number).encode() for number in range(60)
    )


def test_failed_query_stops_the_others_and_names_the_cause(
    spark: "SparkSession", broker: Broker, tmp_path: Path
) -> None:
    broker.produce("trucks", [report("a", "10:00:00"), "{nonsense"], partition=1)
    declared = tables(
        broker,
        source={
            "trucks": source(dead_letters=None),
            "letters": {"topics": ["out"], "format": "raw"},
        },
        sink={
            "letters": {"input": "letters", "kind": "memory"},
            "trucks": {"input": "trucks", "kind": "memory"},
        },
    )
    with (
        pytest.raises(PipelineFailed) as failed,
        PipelineRun(spark, declare(declared), directory=tmp_path) as run,
    ):
        run.wait()
    assert spark.streams.active == []
    assert str(failed.value) == (
        "sink.trucks: broken record at offset 1 of trucks-1: value does not match the json schema "
        '(set dead_letters to a topic, or broken = "drop")'
    )


def read_as(spark: "SparkSession", declared: Tables, values: Sequence[str | None]) -> list[Any]:
    """Returns records with these values as parsed by Spark."""
    pipeline = declare(tables_of_source(declared))
    columns = "key binary, value binary, headers array<struct<key: string, value: binary>>, "
    columns += "topic string, partition int, offset long, timestamp timestamp"
    records = [
        (b"k", None if value is None else value.encode(), None, "t", 0, offset, None)
        for offset, value in enumerate(values)
    ]
    return parsed(spark.createDataFrame(records, columns), pipeline.source["it"]).collect()


def tables_of_source(declared: Tables) -> Tables:
    sink = {"it": {"input": "it", "kind": "memory"}}
    return {"name": "it", "checkpoint": "c", "source": {"it": declared}, "sink": sink}


def test_values_are_parsed_by_format_or_broken_with_a_reason(
    spark: "SparkSession",
) -> None:
    schema = {"value": "string", "number": "int"}
    csv = {"topics": ["t"], "format": "csv", "schema": schema, "parser": {"sep": ";"}}
    lines = ["a;1", "b;two", "c;3;4", None, ";5"]
    rows = read_as(spark, csv | {"required": ["value"]}, lines)
    assert [(row.value, row.number, row._reason) for row in rows] == [
        ("a", 1, None),
        ("b", None, "value does not match the csv schema"),
        ("c", 3, "value does not match the csv schema"),
        (None, None, "value is empty"),
        (None, 5, "value is missing"),
    ]
    json_values = ['{"value": "a", "number": 1, "more": []}', '{"number": "x"}', "[]", '"a"', ""]
    rows = read_as(spark, {"topics": ["t"], "format": "json", "schema": schema}, json_values)
    assert [(row.value, row.number, row._reason) for row in rows] == [
        ("a", 1, None),
        (None, None, "value does not match the json schema"),
        (None, None, "value does not match the json schema"),
        (None, None, "value does not match the json schema"),
        (None, None, "value is empty"),
    ]
    more = ['{"value": "a"} {"value": "b"}', '{"value": "a"}x', '{"value": "a"}}', '[{"value": 1}]']
    more += ["null", "5", '{"value": {"x": 1}} ', '\ufeff{"value": "a"}\n']
    rows = read_as(spark, {"topics": ["t"], "format": "json", "schema": schema}, more)
    assert [row._reason for row in rows] == [
        *6 * ["value does not match the json schema"],
        None,
        None,
    ]
    [row] = read_as(spark, {"topics": ["t"], "format": "raw"}, ["a"])
    assert (row.key, row.value, row._key, row._offset) == (b"k", b"a", "k", 0)
