"""Validates the parts of a pipeline against each other: references, keys of each kind."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from pykbroker.pipeline.declaration.aggregate_checks import check_aggregates
from pykbroker.pipeline.declaration.problems import listed, suggestion
from pykbroker.pipeline.declaration.upstream_steps import path_of, upstream
from pykbroker.pipeline.declaration.values import (
    Archive,
    FileFormat,
    Format,
    OutputMode,
    Sink,
    SinkKind,
    Source,
    SqlStep,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pykbroker.pipeline.declaration.problems import Problems
    from pykbroker.pipeline.declaration.values import Pipeline

SET_BY_THE_PIPELINE: Final = frozenset({"bootstrap.servers", "group.id", "isolation.level"})
MODES: Final = {
    SinkKind.TOPIC: (OutputMode.APPEND, OutputMode.UPDATE),
    SinkKind.PARQUET: (OutputMode.APPEND,),
    SinkKind.DELTA: (OutputMode.APPEND, OutputMode.COMPLETE),
    SinkKind.CONSOLE: tuple(OutputMode),
    SinkKind.MEMORY: tuple(OutputMode),
}
FILES: Final = (SinkKind.PARQUET, SinkKind.DELTA)
TOPIC_SINK_KEYS: Final = ("topic", "key", "value", "headers", "guarantee", "kafka")


def check(pipeline: Pipeline, problems: Problems) -> None:
    """Adds the problems between parts."""
    if not pipeline.source:
        problems.add("source", "is missing: a pipeline reads at least one topic")
    if not pipeline.sink and not pipeline.archive and not dead_letters_of(pipeline):
        problems.add("sink", "is missing: define a sink, an archive or dead_letters")
    check_kafka(pipeline, problems)
    check_names(pipeline, problems)
    for name, source in pipeline.source.items():
        check_source(source, f"source.{name}", problems)
    for name, sink in pipeline.sink.items():
        check_sink(sink, f"sink.{name}", problems)
    for name, archive in pipeline.archive.items():
        check_archive(archive, f"archive.{name}", problems)
    check_directories(pipeline, problems)
    if references_are_valid(pipeline, problems):
        check_aggregates(pipeline, problems)
        check_loops(pipeline, problems)


def dead_letters_of(pipeline: Pipeline) -> list[str]:
    return [it.dead_letters for it in pipeline.source.values() if it.dead_letters is not None]


def check_kafka(pipeline: Pipeline, problems: Problems) -> None:
    tables = {"kafka": pipeline.kafka}
    tables |= {f"source.{name}.kafka": source.kafka for name, source in pipeline.source.items()}
    tables |= {f"sink.{name}.kafka": sink.kafka for name, sink in pipeline.sink.items()}
    for path, settings in tables.items():
        for name in settings:
            if name in SET_BY_THE_PIPELINE:
                problems.add(f"{path}.{name}", "is set by the pipeline")
            elif name.startswith("kafka."):
                problems.add(
                    f"{path}.{name}", f"must be written without the prefix kafka.: {name[6:]}"
                )


def check_archive(archive: Archive, path: str, problems: Problems) -> None:
    if archive.format is FileFormat.DELTA:
        for name in ("skip_archived", "staging"):
            if getattr(archive, name):
                problems.add(f"{path}.{name}", "is not supported for delta")
    elif is_url(archive.path):
        message = 'must be a directory mounted on all Spark nodes; use format "delta" for a URL'
        problems.add(f"{path}.path", message)
    elif archive.staging is not None and is_url(archive.staging):
        problems.add(f"{path}.staging", "should be a directory on the file system of the archive")


def is_url(path: str) -> bool:
    return "://" in path and not path.startswith("file:")


def check_names(pipeline: Pipeline, problems: Problems) -> None:
    """Step names must be unique, because queries use them as table names."""
    sections: dict[str, str] = {}
    for section in ("source", "sql", "window", "session"):
        for name in getattr(pipeline, section):
            if name in sections:
                path = f"{section}.{name}"
                problems.add(path, f"{sections[name]}.{name} has the same name")
            sections[name] = section


def check_source(source: Source, path: str, problems: Problems) -> None:
    if bool(source.topics) == (source.pattern is not None):
        problems.add(path, "must have either topics or pattern")
    check_format(source, path, problems)
    check_columns(source, path, problems)
    if (source.event_time is None) != (source.watermark is None):
        problems.add(path, "must have both event_time and watermark, or neither")
    if source.dead_letters is not None:
        if source.broken is not None:
            problems.add(f"{path}.broken", "conflicts with dead_letters")
        if source.format is Format.RAW:
            problems.add(
                f"{path}.dead_letters", "is not supported for raw, whose records are never broken"
            )
        if source.dead_letters in source.topics:
            problems.add(f"{path}.dead_letters", "is also an input of this source")


def check_format(source: Source, path: str, problems: Problems) -> None:
    kind = source.format
    if kind in (Format.JSON, Format.CSV) and not source.schema:
        problems.add(f"{path}.schema", f"is missing: {kind.value} needs columns and their types")
    if kind is Format.AVRO and source.avro_schema is None:
        problems.add(f"{path}.avro_schema", "is missing: avro needs its schema")
    unsupported = {
        "schema": bool(source.schema) and kind in (Format.AVRO, Format.RAW),
        "avro_schema": source.avro_schema is not None and kind is not Format.AVRO,
        "avro_prefix_bytes": source.avro_prefix_bytes is not None and kind is not Format.AVRO,
        "parser": bool(source.parser) and kind is Format.RAW,
        "required": bool(source.required) and kind is Format.RAW,
    }
    for key, is_set in unsupported.items():
        if is_set:
            problems.add(f"{path}.{key}", f"is not supported for {kind.value}")


def check_columns(source: Source, path: str, problems: Problems) -> None:
    """Checks column names against the schema, if one is declared."""
    for name in source.schema:
        if name.startswith("_"):
            message = "names with a leading _ are reserved: _key, _topic, _offset..."
            problems.add(f"{path}.schema.{name}", message)
    if not source.schema:
        return
    for index, name in enumerate(source.required):
        if name not in source.schema:
            message = f"{name} is not a column of the schema{suggestion(name, source.schema)}"
            problems.add(f"{path}.required[{index}]", message)
    if source.event_time is None or source.event_time == "_timestamp":
        return
    kind = source.schema.get(source.event_time)
    if kind is None:
        message = f"{source.event_time} is not a column of the schema"
        problems.add(f"{path}.event_time", message + suggestion(source.event_time, source.schema))
    elif not kind.strip().lower().startswith("timestamp"):
        problems.add(f"{path}.event_time", f"{source.event_time} is {kind}, not a timestamp")


def check_sink(sink: Sink, path: str, problems: Problems) -> None:
    kind = sink.kind
    if kind is SinkKind.TOPIC and sink.topic is None:
        problems.add(f"{path}.topic", "is missing: the topic to write to")
    if kind in FILES and sink.path is None:
        problems.add(f"{path}.path", "is missing: the directory to write to")
    if kind not in FILES and sink.path is not None:
        problems.add(f"{path}.path", f"is not supported for {kind.value}")
    for name in TOPIC_SINK_KEYS:
        if kind is not SinkKind.TOPIC and getattr(sink, name):
            problems.add(f"{path}.{name}", f"is not supported for {kind.value}")
    if sink.mode not in MODES[kind]:
        supported = listed(mode.value for mode in MODES[kind])
        problems.add(f"{path}.mode", f"{kind.value} supports only {supported} mode")


def references_are_valid(pipeline: Pipeline, problems: Problems) -> bool:
    """Adds problems of references; returns true if all named steps exist without cycles."""
    found_before = len(problems.found)
    for path, name, known in references(pipeline):
        if name not in known:
            problems.add(path, f"{name} does not exist{suggestion(name, known)}")
    for name, step in pipeline.sql.items():
        check_query(step, name, pipeline, problems)
    if len(problems.found) > found_before:
        return False
    for name in pipeline.steps:
        if name in upstream(pipeline, name):
            problems.add(path_of(pipeline, name), "is part of a cycle")
    return len(problems.found) == found_before


def references(pipeline: Pipeline) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yields each reference to a step: its path, the name, and the allowed names."""
    steps, sources = tuple(pipeline.steps), tuple(pipeline.source)
    for name, sql in pipeline.sql.items():
        for index, it in enumerate(sql.inputs):
            yield f"sql.{name}.inputs[{index}]", it, steps
    for section in ("window", "session", "sink"):
        for name, reader in getattr(pipeline, section).items():
            yield f"{section}.{name}.input", reader.input, steps
    for name, archive in pipeline.archive.items():
        yield f"archive.{name}.source", archive.source, sources


def check_query(step: SqlStep, name: str, pipeline: Pipeline, problems: Problems) -> None:
    """Checks that the query reads exactly its declared inputs."""
    words = set(re.findall(r"\w+", step.query))
    for index, it in enumerate(step.inputs):
        if it not in words:
            problems.add(f"sql.{name}.inputs[{index}]", f"the query does not read {it}")
    tables = set(re.findall(r"(?i)\b(?:from|join)\s+`?(\w+)", step.query))
    for table in sorted((tables & pipeline.steps.keys()) - set(step.inputs)):
        problems.add(f"sql.{name}.inputs", f"the query also reads {table}")


def check_directories(pipeline: Pipeline, problems: Problems) -> None:
    """Output directories must be distinct."""
    written = {"checkpoint": pipeline.checkpoint}
    written |= {f"archive.{name}.path": it.path for name, it in pipeline.archive.items()}
    written |= {f"sink.{name}.path": it.path for name, it in pipeline.sink.items() if it.path}
    owners: dict[str, str] = {}
    for path, directory in written.items():
        owner = owners.setdefault(directory.rstrip("/"), path)
        if owner != path:
            problems.add(path, f"is also the directory of {owner}")


def check_loops(pipeline: Pipeline, problems: Problems) -> None:
    """The topic of a sink must not be upstream of it."""
    for name, sink in pipeline.sink.items():
        upstream_steps = {sink.input, *upstream(pipeline, sink.input)}
        sources = [pipeline.source[it] for it in upstream_steps if it in pipeline.source]
        if any(sink.topic in source.topics for source in sources):
            problems.add(
                f"sink.{name}.topic", f"{sink.topic} is an input of this sink, which makes a loop"
            )
