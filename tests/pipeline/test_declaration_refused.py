"""What a declaration must not say is told at its key, in words, all at once."""

import pytest

from pykbroker.pipeline.declaration.problems import DeclarationRefused
from pykbroker.pipeline.declaration.reading import declare


def document(**changes: object) -> dict[str, object]:
    """The smallest pipeline, with some tables in place of its own."""
    return {
        "name": "small",
        "checkpoint": "checkpoint",
        "source": {"letters": {"topics": ["letters"], "format": "raw"}},
        "sink": {"out": {"input": "letters", "kind": "memory"}},
    } | changes


def source(**changes: object) -> dict[str, object]:
    table = {
        "topics": ["letters"],
        "format": "json",
        "schema": {"at": "timestamp", "amount": "int"},
    } | changes
    return document(source={"letters": {name: it for name, it in table.items() if it is not None}})


def sink(**changes: object) -> dict[str, object]:
    return document(sink={"out": {"input": "letters", "kind": "topic", "topic": "out"} | changes})


def window(**changes: object) -> dict[str, object]:
    table = {
        "input": "letters",
        "size": "1 minute",
        "time": "_timestamp",
        "watermark": "1 second",
        "aggregates": {"number": "count(*)"},
    } | changes
    return document(window={"w": {name: it for name, it in table.items() if it is not None}})


def sql(query: str, *inputs: str) -> dict[str, object]:
    return document(sql={"q": {"inputs": inputs, "query": query}})


TWO_WINDOWS = document(
    window={
        "first": {
            "input": "letters",
            "size": "1 minute",
            "time": "_timestamp",
            "watermark": "0 seconds",
            "aggregates": {"n": "count(*)"},
        },
        "second": {
            "input": "first",
            "size": "5 minutes",
            "time": "window_start",
            "watermark": "0 seconds",
            "aggregates": {"n": "sum(n)"},
        },
    }
)

REFUSALS: dict[str, tuple[dict[str, object], list[str]]] = {
    "nothing": (
        {},
        [
            "checkpoint: is missing: directory or URL for progress and state",
            "name: is missing: name of the pipeline in Spark and on the broker",
        ],
    ),
    "an unknown key of the whole": (
        document(bootstraps="one:9092"),
        ["bootstraps: no such key (did you mean bootstrap?)"],
    ),
    "an unknown section": (document(sinks={}), ["sinks: no such key (did you mean sink?)"]),
    "an unknown key": (
        source(topic="letters"),
        ["source.letters.topic: no such key (did you mean topics?)"],
    ),
    "a name in capitals": (
        document(name="Fleet"),
        ["name: 'Fleet' is not a name of lower-case letters, digits and underscores"],
    ),
    "a step with a hyphen": (
        document(archive={"a-b": {"source": "letters", "path": "lake"}}),
        ["archive.a-b: a name has lower-case letters, digits and underscores"],
    ),
    "an address without a port": (
        document(bootstrap="localhost"),
        ["bootstrap: 'localhost' is not HOST:PORT or a comma-separated list of them"],
    ),
    "a number for a string": (
        document(checkpoint=1),
        ["checkpoint: should be a path, not a number"],
    ),
    "an empty path": (document(checkpoint=""), ["checkpoint: '' is not a path"]),
    "a number for a time": (
        document(every=5),
        ["every: should be a duration such as '20 seconds', not 5"],
    ),
    "a section that is no table": (
        document(source="letters"),
        ["source: should hold tables as [source.NAME], not a string"],
    ),
    "a step that is no table": (
        document(archive={"raw": "lake"}),
        ["archive.raw: should be a table as [archive.NAME], not a string"],
    ),
    "a setting that is a list": (
        document(spark={"executor.cores": [1]}),
        ["spark.executor.cores: should be a string, a number, true or false, not a list"],
    ),
    "no source": (
        document(source={}),
        [
            "source: is missing: a pipeline reads at least one topic",
            "sink.out.input: there is no letters",
        ],
    ),
    "no sink": (
        document(sink={}),
        ["sink: is missing: nothing would be written; declare a sink or an archive"],
    ),
    "a setting that is the pipeline's": (
        document(kafka={"group.id": "mine"}),
        ["kafka.group.id: is set by the pipeline itself"],
    ),
    "a setting with Spark's prefix": (
        source(kafka={"kafka.fetch.max.wait.ms": 5}),
        [
            (
                "source.letters.kafka.kafka.fetch.max.wait.ms: "
                "is written here without kafka.: fetch.max.wait.ms"
            )
        ],
    ),
    "topics that are one text": (
        source(topics="letters"),
        [
            "source.letters.topics: should be a list of topics, not a string",
        ],
    ),
    "no topics": (
        source(topics=[]),
        ["source.letters.topics: should name at least one of topics"],
    ),
    "a topic twice": (
        source(topics=["letters", "letters"]),
        ["source.letters.topics: names letters twice"],
    ),
    "a topic with a space": (
        source(topics=["my letters"]),
        ["source.letters.topics[0]: 'my letters' is not a topic"],
    ),
    "topics and a pattern": (
        source(pattern="letters.*"),
        ["source.letters: names either topics or a pattern"],
    ),
    "neither topics nor a pattern": (
        source(topics=None),
        ["source.letters: names either topics or a pattern"],
    ),
    "a broken pattern": (
        source(topics=None, pattern="letters("),
        ["source.letters.pattern: 'letters(' is not a regular expression"],
    ),
    "an unknown format": (
        source(format="xml"),
        ["source.letters.format: should be json, csv, avro or raw, not 'xml'"],
    ),
    "a misspelt type": (
        source(schema={"amount": "dubble"}),
        ["source.letters.schema.amount: 'dubble' is not a type of a column"],
    ),
    "a column of the record": (
        source(schema={"_offset": "long"}),
        [
            (
                "source.letters.schema._offset: names that begin with _ are the pipeline's: "
                "_key, _topic, _offset..."
            )
        ],
    ),
    "json without a schema": (
        source(schema=None),
        ["source.letters.schema: is missing: json needs columns and their types"],
    ),
    "avro without its schema": (
        source(format="avro", schema=None),
        ["source.letters.avro_schema: is missing: avro needs its schema"],
    ),
    "avro whose schema is no JSON": (
        source(format="avro", schema=None, avro_schema="record"),
        ["source.letters.avro_schema: 'record' is not an Avro schema in JSON"],
    ),
    "raw with a schema": (source(format="raw"), ["source.letters.schema: means nothing for raw"]),
    "a required column that is none": (
        source(required=["amuont"]),
        [
            "source.letters.required[0]: amuont is no column of the schema (did you mean amount?)",
        ],
    ),
    "an event time that is none": (
        source(event_time="when", watermark="1 minute"),
        ["source.letters.event_time: when is no column of the schema"],
    ),
    "an event time that is a number": (
        source(event_time="amount", watermark="1 minute"),
        ["source.letters.event_time: amount is int, not a timestamp"],
    ),
    "an event time without a watermark": (
        source(event_time="at"),
        ["source.letters: has event_time and watermark, or neither"],
    ),
    "dead letters and another fate": (
        source(dead_letters="dead", broken="drop"),
        ["source.letters.broken: is settled: broken records go to dead_letters"],
    ),
    "dead letters into the same topic": (
        source(dead_letters="letters"),
        ["source.letters.dead_letters: is a topic that this source reads"],
    ),
    "dead letters of raw records": (
        source(format="raw", schema=None, dead_letters="dead"),
        ["source.letters.dead_letters: a raw record is never broken"],
    ),
    "no records in a batch": (
        source(batch_records_max=0),
        ["source.letters.batch_records_max: should be at least 1, not 0"],
    ),
    "a flag that is a string": (
        source(fail_on_data_loss="yes"),
        ["source.letters.fail_on_data_loss: should be true or false, not a string"],
    ),
    "a number that is a flag": (
        source(partitions_min=True),
        ["source.letters.partitions_min: should be an integer, not true or false"],
    ),
    "a sink of nothing": (
        sink(input="leters"),
        ["sink.out.input: there is no leters (did you mean letters?)"],
    ),
    "a topic sink without a topic": (
        document(sink={"out": {"input": "letters", "kind": "topic"}}),
        ["sink.out.topic: is missing: the topic to write to"],
    ),
    "files without a path": (
        document(sink={"out": {"input": "letters", "kind": "delta"}}),
        ["sink.out.path: is missing: the directory to write to"],
    ),
    "a console with a path": (
        document(sink={"out": {"input": "letters", "kind": "console", "path": "here"}}),
        ["sink.out.path: means nothing for console"],
    ),
    "a file with a guarantee": (
        sink(kind="parquet", path="here"),
        ["sink.out.topic: means nothing for parquet"],
    ),
    "files that change": (
        document(
            sink={"out": {"input": "letters", "kind": "parquet", "path": "p", "mode": "update"}}
        ),
        ["sink.out.mode: parquet can be written in append mode alone"],
    ),
    "a sink into its own source": (
        sink(topic="letters"),
        ["sink.out.topic: letters is what this sink reads: a loop"],
    ),
    "two in one directory": (
        document(archive={"raw": {"source": "letters", "path": "checkpoint/"}}),
        ["archive.raw.path: is the directory of checkpoint already"],
    ),
    "an archive of Parquet at an address": (
        document(archive={"raw": {"source": "letters", "path": "s3a://bucket/lake"}}),
        [
            (
                "archive.raw.path: parquet is archived in a directory, mounted where Spark runs; "
                'for all else, "delta"'
            )
        ],
    ),
    "a table of Delta that should skip": (
        document(
            archive={
                "raw": {
                    "source": "letters",
                    "path": "s3a://bucket/lake",
                    "format": "delta",
                    "skip_archived": True,
                }
            }
        ),
        ["archive.raw.skip_archived: means nothing for delta"],
    ),
    "an archive of no source": (
        document(archive={"raw": {"source": "out", "path": "lake"}}),
        ["archive.raw.source: there is no out"],
    ),
    "a query that does not read its input": (
        sql("SELECT 1", "letters"),
        ["sql.q.inputs[0]: the query does not mention letters"],
    ),
    "a query that reads more than it says": (
        document(
            source={
                "letters": {"topics": ["letters"], "format": "raw"},
                "others": {"topics": ["others"], "format": "raw"},
            },
            sql={"q": {"inputs": ["letters"], "query": "SELECT * FROM letters JOIN others"}},
        ),
        ["sql.q.inputs: the query reads others, which is not named here"],
    ),
    "a circle": (
        document(
            sql={
                "a": {"inputs": ["b"], "query": "SELECT * FROM b"},
                "b": {"inputs": ["a"], "query": "SELECT * FROM a"},
            }
        ),
        [
            "sql.a: reads its own rows, in a circle",
            "sql.b: reads its own rows, in a circle",
        ],
    ),
    "two steps of one name": (
        document(sql={"letters": {"inputs": ["letters"], "query": "SELECT * FROM letters"}}),
        [
            "sql.letters: there is a source.letters already",
            "source.letters: reads its own rows, in a circle",
        ],
    ),
    "a window of no length": (
        window(size="0 seconds"),
        ["window.w.size: should be longer than zero"],
    ),
    "a window without a watermark": (
        window(watermark=None),
        ["window.w.watermark: is missing: without one, no aggregate is ever final"],
    ),
    "a window without a time": (
        window(time=None),
        ["window.w.time: is missing: the column that says when it happened"],
    ),
    "a window with two watermarks": (
        source(event_time="at", watermark="1 minute") | {"window": window()["window"]},
        ["window.w.watermark: is settled: the source has one"],
    ),
    "a window of nothing": (
        window(aggregates={}),
        ["window.w.aggregates: is missing: at least one new column"],
    ),
    "windows with gaps between": (
        window(slide="2 minutes"),
        ["window.w.slide: is longer than the window: rows between would be lost"],
    ),
    "an aggregate that hides its key": (
        window(by=["number"]),
        ["window.w.aggregates.number: is a column of `by` already"],
    ),
    "a session that changes": (
        document(
            session={
                "s": {
                    "input": "letters",
                    "gap": "1 minute",
                    "time": "_timestamp",
                    "watermark": "1 second",
                    "by": ["key"],
                    "aggregates": {"number": "count(*)"},
                }
            },
            sink={"out": {"input": "s", "kind": "memory", "mode": "update"}},
        ),
        ["sink.out.mode: Spark cannot write the session s so"],
    ),
    "a window of windows": (
        TWO_WINDOWS,
        [
            (
                "window.second.input: first has aggregated already; "
                "write it to a topic, and read that as a source"
            )
        ],
    ),
}


@pytest.mark.parametrize(("tables", "problems"), REFUSALS.values(), ids=REFUSALS)
def test_a_mistake_is_said_at_its_key(tables: dict[str, object], problems: list[str]) -> None:
    with pytest.raises(DeclarationRefused) as refused:
        declare(tables)
    assert str(refused.value).splitlines() == problems


def test_all_mistakes_are_said_at_once() -> None:
    with pytest.raises(DeclarationRefused) as refused:
        declare(document(name=5, every="soon", kafka=[]))
    assert [problem.path for problem in refused.value.problems] == ["name", "every", "kafka"]
