"""The parts of a pipeline: each field is a key of the declaration, with what it means beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Final, TypeAlias

from pykbroker.pipeline.declaration.durations import Duration
from pykbroker.pipeline.declaration.keys import (
    ADDRESSES,
    AVRO,
    COLUMN,
    COLUMNS,
    COUNT,
    DURATION,
    FLAG,
    HEADERS,
    MEASURES,
    PATH,
    PATTERN,
    PIPELINE_NAME,
    QUERY,
    SCHEMA,
    SETTINGS,
    SOME_TIME,
    SQL,
    STEP_NAME,
    STEPS,
    TOPIC_NAME,
    TOPICS,
    Key,
    one_of,
)

SECOND: Final = Duration(1000)

Settings: TypeAlias = Mapping[str, str]


class Format(Enum):
    JSON = "json"
    CSV = "csv"
    AVRO = "avro"
    RAW = "raw"


class Starting(Enum):
    EARLIEST = "earliest"
    LATEST = "latest"


class Isolation(Enum):
    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"


class Broken(Enum):
    """What becomes of a record that cannot be read."""

    FAIL = "fail"
    DROP = "drop"


class Guarantee(Enum):
    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"


class Lake(Enum):
    PARQUET = "parquet"
    DELTA = "delta"


class SinkKind(Enum):
    TOPIC = "topic"
    PARQUET = "parquet"
    DELTA = "delta"
    CONSOLE = "console"
    MEMORY = "memory"


class OutputMode(Enum):
    APPEND = "append"
    UPDATE = "update"
    COMPLETE = "complete"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Topics, read as rows with columns."""

    topics: Annotated[tuple[str, ...], Key(TOPICS, "the topics to read")] = ()
    pattern: Annotated[
        str | None, Key(PATTERN, "instead of `topics`: all topics whose names match")
    ] = None
    format: Annotated[Format, Key(one_of(Format), "how the value of a record is written")]
    schema: Annotated[
        Mapping[str, str],
        Key(SCHEMA, "the columns in the value, for json and csv, in the order of a csv line"),
    ] = field(default_factory=dict)
    avro_schema: Annotated[str | None, Key(AVRO, "the schema of the value, for avro")] = None
    avro_prefix_bytes: Annotated[
        int | None, Key(COUNT, "bytes before the avro value; 5 where a schema registry is used")
    ] = None
    parser: Annotated[
        Settings, Key(SETTINGS, "options of Spark's reader of this format, as `timestampFormat`")
    ] = field(default_factory=dict)
    required: Annotated[
        tuple[str, ...], Key(COLUMNS, "a record without one of these is broken")
    ] = ()
    dead_letters: Annotated[
        str | None, Key(TOPIC_NAME, "the topic that gets broken records, with the reason")
    ] = None
    dead_letters_guarantee: Annotated[
        Guarantee, Key(one_of(Guarantee), "what holds for dead letters when the pipeline dies")
    ] = Guarantee.EXACTLY_ONCE
    broken: Annotated[
        Broken | None,
        Key(
            one_of(Broken),
            "where there is no dead-letter topic: what a broken record does (default: `fail`)",
        ),
    ] = None
    event_time: Annotated[
        str | None, Key(COLUMN, "the column that says when it happened; needs `watermark`")
    ] = None
    watermark: Annotated[
        Duration | None, Key(DURATION, "how much later than others a record may come")
    ] = None
    starting: Annotated[
        Starting, Key(one_of(Starting), "where to begin when there is no checkpoint yet")
    ] = Starting.EARLIEST
    isolation: Annotated[
        Isolation, Key(one_of(Isolation), "whether records of open transactions are waited for")
    ] = Isolation.READ_COMMITTED
    fail_on_data_loss: Annotated[
        bool, Key(FLAG, "stop when records are gone that were not read yet")
    ] = True
    batch_records_max: Annotated[
        int | None, Key(COUNT, "at most so many records in a batch (default: all)")
    ] = None
    partitions_min: Annotated[
        int | None, Key(COUNT, "read with at least so many tasks, more than the topics have")
    ] = None
    kafka: Annotated[
        Settings, Key(SETTINGS, "properties of this source's consumer, as `max.poll.records`")
    ] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlStep:
    """Rows made of other steps' rows by an SQL query."""

    inputs: Annotated[tuple[str, ...], Key(STEPS, "the steps that the query reads as tables")]
    query: Annotated[str, Key(QUERY, "a SELECT in Spark's SQL")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Aggregates over spans of time, in `window_start` and `window_end`."""

    input: Annotated[str, Key(STEP_NAME, "the step whose rows are aggregated")]
    size: Annotated[Duration, Key(SOME_TIME, "how long a window is")]
    slide: Annotated[
        Duration | None, Key(SOME_TIME, "how far apart windows begin (default: `size`)")
    ] = None
    time: Annotated[
        str | None, Key(COLUMN, "the column with the time (default: the source's `event_time`)")
    ] = None
    watermark: Annotated[
        Duration | None, Key(DURATION, "how late rows may come; needed if no source has one")
    ] = None
    by: Annotated[tuple[str, ...], Key(COLUMNS, "one aggregate for each value of these")] = ()
    aggregates: Annotated[Mapping[str, str], Key(MEASURES, "the new columns, as `avg(speed)`")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Aggregates over rows that follow each other; a silence ends them, at `session_end`."""

    input: Annotated[str, Key(STEP_NAME, "the step whose rows are aggregated")]
    gap: Annotated[Duration, Key(SOME_TIME, "a silence of this length ends a session")]
    time: Annotated[
        str | None, Key(COLUMN, "the column with the time (default: the source's `event_time`)")
    ] = None
    watermark: Annotated[
        Duration | None, Key(DURATION, "how late rows may come; needed if no source has one")
    ] = None
    by: Annotated[tuple[str, ...], Key(COLUMNS, "one session at a time for each value of these")]
    aggregates: Annotated[Mapping[str, str], Key(MEASURES, "the new columns, as `count(*)`")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """A source's records as they are, kept in files: key, value, headers and place."""

    source: Annotated[str, Key(STEP_NAME, "the source to keep")]
    path: Annotated[
        str, Key(PATH, "the directory; for `delta`, also an address that Spark can write to")
    ]
    format: Annotated[Lake, Key(one_of(Lake), "the kind of files")] = Lake.PARQUET
    skip_archived: Annotated[
        bool, Key(FLAG, "leave out what is archived already, where a checkpoint begins anew")
    ] = False
    files_per_day_max: Annotated[
        int | None, Key(COUNT, "files of a batch for each topic and day (default: Spark's tasks)")
    ] = None
    staging: Annotated[
        str | None,
        Key(PATH, "where files lie before they are moved into place (default: beside the archive)"),
    ] = None
    every: Annotated[
        Duration | None, Key(DURATION, "how often a batch begins (default: the pipeline's)")
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    """Where the rows of a step go."""

    input: Annotated[str, Key(STEP_NAME, "the step whose rows are written")]
    kind: Annotated[SinkKind, Key(one_of(SinkKind), "what is written to")]
    topic: Annotated[str | None, Key(TOPIC_NAME, "the topic, for `topic`")] = None
    key: Annotated[str | None, Key(SQL, "the key of a record (default: none)")] = None
    value: Annotated[
        str | None, Key(SQL, "the value of a record (default: all columns as a JSON object)")
    ] = None
    headers: Annotated[Mapping[str, str], Key(HEADERS, "the headers of a record")] = field(
        default_factory=dict
    )
    guarantee: Annotated[
        Guarantee | None,
        Key(
            one_of(Guarantee),
            "for `topic`: what holds when the pipeline dies (default: `exactly-once`)",
        ),
    ] = None
    path: Annotated[
        str | None, Key(PATH, "the directory, or an address that Spark can write to, for files")
    ] = None
    mode: Annotated[
        OutputMode,
        Key(one_of(OutputMode), "which rows of an aggregate: final ones, changed ones, all"),
    ] = OutputMode.APPEND
    every: Annotated[
        Duration | None, Key(DURATION, "how often a batch begins (default: the pipeline's)")
    ] = None
    kafka: Annotated[
        Settings,
        Key(SETTINGS, "properties of this sink's producer; in Java's words or librdkafka's"),
    ] = field(default_factory=dict)


Step: TypeAlias = Source | SqlStep | Window | Session


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """The whole of it."""

    name: Annotated[str, Key(PIPELINE_NAME, "names the pipeline to Spark and to the broker")]
    checkpoint: Annotated[str, Key(PATH, "where progress is kept: a directory or an address")]
    bootstrap: Annotated[str, Key(ADDRESSES, "the broker, or several")] = "127.0.0.1:9092"
    every: Annotated[Duration, Key(DURATION, "how often a batch begins")] = SECOND
    kafka: Annotated[
        Settings, Key(SETTINGS, "properties of all Kafka clients, as `security.protocol`")
    ] = field(default_factory=dict)
    spark: Annotated[Settings, Key(SETTINGS, "settings of Spark, as `sql.shuffle.partitions`")] = (
        field(default_factory=dict)
    )
    source: Mapping[str, Source]
    sql: Mapping[str, SqlStep] = field(default_factory=dict)
    window: Mapping[str, Window] = field(default_factory=dict)
    session: Mapping[str, Session] = field(default_factory=dict)
    archive: Mapping[str, Archive] = field(default_factory=dict)
    sink: Mapping[str, Sink] = field(default_factory=dict)

    @property
    def steps(self) -> dict[str, Step]:
        """Whatever has rows that others may read."""
        return {**self.source, **self.sql, **self.window, **self.session}


SECTIONS: Final[Mapping[str, type]] = {
    "source": Source,
    "sql": SqlStep,
    "window": Window,
    "session": Session,
    "archive": Archive,
    "sink": Sink,
}


def inputs_of(step: Step) -> tuple[str, ...]:
    """The steps whose rows this one reads."""
    match step:
        case Source():
            return ()
        case SqlStep():
            return step.inputs
        case Window() | Session():
            return (step.input,)
