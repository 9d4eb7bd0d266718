"""The parts of a pipeline. Each field is a key of the declaration, annotated with its meaning."""

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
    """Handling of a record that cannot be parsed."""

    FAIL = "fail"
    DROP = "drop"


class Guarantee(Enum):
    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"


class FileFormat(Enum):
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

    topics: Annotated[tuple[str, ...], Key(TOPICS, "topics to read")] = ()
    pattern: Annotated[
        str | None, Key(PATTERN, "instead of `topics`: all topics with matching names")
    ] = None
    format: Annotated[Format, Key(one_of(Format), "format of the record value")]
    schema: Annotated[
        Mapping[str, str],
        Key(SCHEMA, "columns in the value, for json and csv; for csv in file order"),
    ] = field(default_factory=dict)
    avro_schema: Annotated[str | None, Key(AVRO, "schema of the value, for avro")] = None
    avro_prefix_bytes: Annotated[
        int | None, Key(COUNT, "bytes before the avro value; 5 with a schema registry")
    ] = None
    parser: Annotated[
        Settings,
        Key(SETTINGS, "options of Spark's reader for this format, such as `timestampFormat`"),
    ] = field(default_factory=dict)
    required: Annotated[
        tuple[str, ...],
        Key(COLUMNS, "columns that must not be null; otherwise the record is broken"),
    ] = ()
    dead_letters: Annotated[
        str | None, Key(TOPIC_NAME, "topic for broken records, with the reason as a header")
    ] = None
    dead_letters_guarantee: Annotated[
        Guarantee, Key(one_of(Guarantee), "delivery guarantee for dead letters")
    ] = Guarantee.EXACTLY_ONCE
    broken: Annotated[
        Broken | None,
        Key(
            one_of(Broken),
            "without `dead_letters`: handling of broken records (default: `fail`)",
        ),
    ] = None
    event_time: Annotated[
        str | None, Key(COLUMN, "column with the time of the event; requires `watermark`")
    ] = None
    watermark: Annotated[
        Duration | None, Key(DURATION, "maximum lateness of a record relative to the newest one")
    ] = None
    starting: Annotated[Starting, Key(one_of(Starting), "start position without a checkpoint")] = (
        Starting.EARLIEST
    )
    isolation: Annotated[Isolation, Key(one_of(Isolation), "isolation level of the consumer")] = (
        Isolation.READ_COMMITTED
    )
    fail_on_data_loss: Annotated[bool, Key(FLAG, "stop if unread records were deleted")] = True
    batch_records_max: Annotated[
        int | None, Key(COUNT, "maximum number of records in a batch (default: all)")
    ] = None
    partitions_min: Annotated[
        int | None, Key(COUNT, "minimum number of read tasks, if more than topic partitions")
    ] = None
    kafka: Annotated[
        Settings, Key(SETTINGS, "properties of this consumer, such as `max.poll.records`")
    ] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlStep:
    """An SQL query on the rows of other steps."""

    inputs: Annotated[tuple[str, ...], Key(STEPS, "steps that the query reads as tables")]
    query: Annotated[str, Key(QUERY, "a SELECT in Spark's SQL")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Aggregates over time windows, with columns `window_start` and `window_end`."""

    input: Annotated[str, Key(STEP_NAME, "step whose rows are aggregated")]
    size: Annotated[Duration, Key(SOME_TIME, "length of a window")]
    slide: Annotated[
        Duration | None, Key(SOME_TIME, "interval between window starts (default: `size`)")
    ] = None
    time: Annotated[
        str | None, Key(COLUMN, "column with the time (default: `event_time` of the source)")
    ] = None
    watermark: Annotated[
        Duration | None, Key(DURATION, "maximum lateness of rows; required if no source has one")
    ] = None
    by: Annotated[tuple[str, ...], Key(COLUMNS, "grouping columns")] = ()
    aggregates: Annotated[Mapping[str, str], Key(MEASURES, "new columns, such as `avg(speed)`")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Aggregates over session windows, which end after a gap, at `session_end`."""

    input: Annotated[str, Key(STEP_NAME, "step whose rows are aggregated")]
    gap: Annotated[Duration, Key(SOME_TIME, "inactivity that ends a session")]
    time: Annotated[
        str | None, Key(COLUMN, "column with the time (default: `event_time` of the source)")
    ] = None
    watermark: Annotated[
        Duration | None, Key(DURATION, "maximum lateness of rows; required if no source has one")
    ] = None
    by: Annotated[tuple[str, ...], Key(COLUMNS, "grouping columns")]
    aggregates: Annotated[Mapping[str, str], Key(MEASURES, "new columns, such as `count(*)`")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """Unchanged records of a source in files: key, value, headers, partition and offset."""

    source: Annotated[str, Key(STEP_NAME, "source to archive")]
    path: Annotated[str, Key(PATH, "directory; for `delta` also a URL that Spark can write to")]
    format: Annotated[FileFormat, Key(one_of(FileFormat), "file format")] = FileFormat.PARQUET
    skip_archived: Annotated[bool, Key(FLAG, "skip archived records if the checkpoint is new")] = (
        False
    )
    files_per_day_max: Annotated[
        int | None,
        Key(COUNT, "maximum files per batch, topic and day (default: one per Spark task)"),
    ] = None
    staging: Annotated[
        str | None,
        Key(PATH, "directory for files of unfinished batches (default: beside the archive)"),
    ] = None
    every: Annotated[
        Duration | None, Key(DURATION, "interval between batches (default: that of the pipeline)")
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    """Output for the rows of a step."""

    input: Annotated[str, Key(STEP_NAME, "step whose rows are written")]
    kind: Annotated[SinkKind, Key(one_of(SinkKind), "kind of output")]
    topic: Annotated[str | None, Key(TOPIC_NAME, "topic, for kind `topic`")] = None
    key: Annotated[str | None, Key(SQL, "record key (default: null)")] = None
    value: Annotated[
        str | None, Key(SQL, "record value (default: all columns as a JSON object)")
    ] = None
    headers: Annotated[Mapping[str, str], Key(HEADERS, "record headers")] = field(
        default_factory=dict
    )
    guarantee: Annotated[
        Guarantee | None,
        Key(
            one_of(Guarantee),
            "delivery guarantee, for kind `topic` (default: `exactly-once`)",
        ),
    ] = None
    path: Annotated[
        str | None, Key(PATH, "directory or URL that Spark can write to, for files")
    ] = None
    mode: Annotated[
        OutputMode,
        Key(one_of(OutputMode), "rows of an aggregate to write: final, changed or all"),
    ] = OutputMode.APPEND
    every: Annotated[
        Duration | None, Key(DURATION, "interval between batches (default: that of the pipeline)")
    ] = None
    kafka: Annotated[
        Settings,
        Key(SETTINGS, "properties of this producer, with Java or librdkafka names"),
    ] = field(default_factory=dict)


Step: TypeAlias = Source | SqlStep | Window | Session


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """A declared pipeline."""

    name: Annotated[str, Key(PIPELINE_NAME, "name of the pipeline in Spark and on the broker")]
    checkpoint: Annotated[str, Key(PATH, "directory or URL for progress and state")]
    bootstrap: Annotated[str, Key(ADDRESSES, "brokers to connect to")] = "127.0.0.1:9092"
    every: Annotated[Duration, Key(DURATION, "interval between batches")] = SECOND
    kafka: Annotated[
        Settings, Key(SETTINGS, "properties of all Kafka clients, such as `security.protocol`")
    ] = field(default_factory=dict)
    spark: Annotated[
        Settings, Key(SETTINGS, "Spark settings, such as `sql.shuffle.partitions`")
    ] = field(default_factory=dict)
    source: Mapping[str, Source]
    sql: Mapping[str, SqlStep] = field(default_factory=dict)
    window: Mapping[str, Window] = field(default_factory=dict)
    session: Mapping[str, Session] = field(default_factory=dict)
    archive: Mapping[str, Archive] = field(default_factory=dict)
    sink: Mapping[str, Sink] = field(default_factory=dict)

    @property
    def steps(self) -> dict[str, Step]:
        """All parts with rows that other parts can read."""
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
    """Returns the names of the steps that this step reads."""
    match step:
        case Source():
            return ()
        case SqlStep():
            return step.inputs
        case Window() | Session():
            return (step.input,)
