"""Invalid pipeline files are rejected with all problems, each at its key."""

import pytest

from pykbroker.pipeline.declaration.problems import DeclarationRefused
from pykbroker.pipeline.declaration.reading import declare


def document(**changes: object) -> dict[str, object]:
    """Returns the smallest pipeline with some tables replaced."""
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

INVALID: dict[str, tuple[dict[str, object], list[str]]] = {
    "nothing": (
        {},
        [
            "checkpoint: is missing: directory or URL for progress and state",
            "name: is missing: name of the pipeline in Spark and on the broker",
        ],
    ),
    "an unknown top-level key": (
        document(bootstraps="one:9092"),
        ["bootstraps: unknown key (did you mean bootstrap?)"],
    ),
    "an unknown section": (document(sinks={}), ["sinks: unknown key (did you mean sink?)"]),
    "an unknown key": (
        source(topic="letters"),
        ["source.letters.topic: unknown key (did you mean topics?)"],
    ),
    "a name in capitals": (
        document(name="Fleet"),
        ["name: 'Fleet' is not a name of lower-case letters, digits and underscores"],
    ),
    "a step with a hyphen": (
        document(archive={"a-b": {"source": "letters", "path": "lake"}}),
        ["archive.a-b: a name consists of lower-case letters, digits and underscores"],
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
    "a section that is not a table": (
        document(source="letters"),
        ["source: should hold tables as [source.NAME], not a string"],
    ),
    "a step that is not a table": (
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
            "sink.out.input: letters does not exist",
        ],
    ),
    "no sink": (
        document(sink={}),
        ["sink: is missing: define a sink, an archive or dead_letters"],
    ),
    "a setting that the pipeline sets": (
        document(kafka={"group.id": "mine"}),
        ["kafka.group.id: is set by the pipeline"],
    ),
    "a setting with Spark's prefix": (
        source(kafka={"kafka.fetch.max.wait.ms": 5}),
        [
            (
                "source.letters.kafka.kafka.fetch.max.wait.ms: "
                "must be written without the prefix kafka.: fetch.max.wait.ms"
            )
        ],
    ),
    "topics as a string": (
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
        ["source.letters: must have either topics or pattern"],
    ),
    "neither topics nor a pattern": (
        source(topics=None),
        ["source.letters: must have either topics or pattern"],
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
                "source.letters.schema._offset: names with a leading _ are reserved: "
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
    "an avro schema that is not JSON": (
        source(format="avro", schema=None, avro_schema="record"),
        ["source.letters.avro_schema: 'record' is not an Avro schema in JSON"],
    ),
    "raw with a schema": (
        source(format="raw"),
        ["source.letters.schema: is not supported for raw"],
    ),
    "a required column that does not exist": (
        source(required=["amuont"]),
        [
            (
                "source.letters.required[0]: amuont is not a column of the schema"
                " (did you mean amount?)"
            ),
        ],
    ),
    "an event time that does not exist": (
        source(event_time="when", watermark="1 minute"),
        ["source.letters.event_time: when is not a column of the schema"],
    ),
    "an event time that is a number": (
        source(event_time="amount", watermark="1 minute"),
        ["source.letters.event_time: amount is int, not a timestamp"],
    ),
    "an event time without a watermark": (
        source(event_time="at"),
        ["source.letters: must have both event_time and watermark, or neither"],
    ),
    "dead letters and broken": (
        source(dead_letters="dead", broken="drop"),
        ["source.letters.broken: conflicts with dead_letters"],
    ),
    "dead letters into the same topic": (
        source(dead_letters="letters"),
        ["source.letters.dead_letters: is also an input of this source"],
    ),
    "dead letters of raw records": (
        source(format="raw", schema=None, dead_letters="dead"),
        ["source.letters.dead_letters: is not supported for raw, whose records are never broken"],
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
    "a sink with an unknown input": (
        sink(input="leters"),
        ["sink.out.input: leters does not exist (did you mean letters?)"],
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
        ["sink.out.path: is not supported for console"],
    ),
    "a file with a guarantee": (
        sink(kind="parquet", path="here"),
        ["sink.out.topic: is not supported for parquet"],
    ),
    "files in update mode": (
        document(
            sink={"out": {"input": "letters", "kind": "parquet", "path": "p", "mode": "update"}}
        ),
        ["sink.out.mode: parquet supports only append mode"],
    ),
    "a sink into its own source": (
        sink(topic="letters"),
        ["sink.out.topic: letters is an input of this sink, which makes a loop"],
    ),
    "two outputs in one directory": (
        document(archive={"raw": {"source": "letters", "path": "checkpoint/"}}),
        ["archive.raw.path: is also the directory of checkpoint"],
    ),
    "a Parquet archive at a URL": (
        document(archive={"raw": {"source": "letters", "path": "s3a://bucket/lake"}}),
        [
            (
                "archive.raw.path: must be a directory mounted on all Spark nodes; "
                'use format "delta" for a URL'
            )
        ],
    ),
    "a Delta archive with skip_archived": (
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
        ["archive.raw.skip_archived: is not supported for delta"],
    ),
    "an archive of a sink": (
        document(archive={"raw": {"source": "out", "path": "lake"}}),
        ["archive.raw.source: out does not exist"],
    ),
    "a query that does not read its input": (
        sql("SELECT 1", "letters"),
        ["sql.q.inputs[0]: the query does not read letters"],
    ),
    "a query with an undeclared input": (
        document(
            source={
                "letters": {"topics": ["letters"], "format": "raw"},
                "others": {"topics": ["others"], "format": "raw"},
            },
            sql={"q": {"inputs": ["letters"], "query": "SELECT * FROM letters JOIN others"}},
        ),
        ["sql.q.inputs: the query also reads others"],
    ),
    "a cycle": (
        document(
            sql={
                "a": {"inputs": ["b"], "query": "SELECT * FROM b"},
                "b": {"inputs": ["a"], "query": "SELECT * FROM a"},
            }
        ),
        [
            "sql.a: is part of a cycle",
            "sql.b: is part of a cycle",
        ],
    ),
    "two steps of one name": (
        document(sql={"letters": {"inputs": ["letters"], "query": "SELECT * FROM letters"}}),
        [
            "sql.letters: source.letters has the same name",
            "source.letters: is part of a cycle",
        ],
    ),
    "a window of length zero": (
        window(size="0 seconds"),
        ["window.w.size: should be longer than zero"],
    ),
    "a window without a watermark": (
        window(watermark=None),
        ["window.w.watermark: is missing: without a watermark no aggregate is final"],
    ),
    "a window without a time": (
        window(time=None),
        ["window.w.time: is missing: the column with the time of a row"],
    ),
    "a window with two watermarks": (
        source(event_time="at", watermark="1 minute") | {"window": window()["window"]},
        ["window.w.watermark: conflicts with the watermark of the source"],
    ),
    "a window without aggregates": (
        window(aggregates={}),
        ["window.w.aggregates: is missing: define at least one new column"],
    ),
    "windows with gaps between": (
        window(slide="2 minutes"),
        ["window.w.slide: is longer than the window: rows between windows would be lost"],
    ),
    "an aggregate with the name of its key": (
        window(by=["number"]),
        ["window.w.aggregates.number: is also a column of `by`"],
    ),
    "a session in update mode": (
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
        ["sink.out.mode: Spark does not support update mode for the session s"],
    ),
    "a window of windows": (
        TWO_WINDOWS,
        [
            (
                "window.second.input: first is an aggregate; "
                "write it to a topic and read that topic as a source"
            )
        ],
    ),
}


@pytest.mark.parametrize(("tables", "problems"), INVALID.values(), ids=INVALID)
def test_problem_is_reported_at_its_key(tables: dict[str, object], problems: list[str]) -> None:
    with pytest.raises(DeclarationRefused) as refused:
        declare(tables)
    assert str(refused.value).splitlines() == problems


def test_all_problems_are_reported_together() -> None:
    with pytest.raises(DeclarationRefused) as refused:
        declare(document(name=5, every="soon", kafka=[]))
    assert [problem.path for problem in refused.value.problems] == ["name", "every", "kafka"]
