"""Boxes and arrows of a pipeline: topics, steps, sinks and directories."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from pykbroker.pipeline.declaration.values import (
    Archive,
    Broken,
    Format,
    OutputMode,
    Session,
    Sink,
    SinkKind,
    Source,
    SqlStep,
    Window,
    inputs_of,
)
from pykbroker.pipeline.plan import DeadLetters, Query, guarantee_of, queries_of, time_column

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pykbroker.pipeline.declaration.values import Pipeline, Step


class Shape(Enum):
    TOPIC = "topic"
    SOURCE = "source"
    STEP = "step"
    STATE = "state"
    """A stateful step."""
    SINK = "sink"
    DIRECTORY = "directory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    name: str
    shape: Shape
    title: str
    kind: str = ""
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrow:
    start: str
    end: str
    is_for_broken: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]


def graph_of(pipeline: Pipeline) -> Graph:
    boxes: dict[str, Box] = {}
    arrows: list[Arrow] = []
    for part, routes in parts_of(pipeline):
        boxes.setdefault(part.name, part)
        arrows += routes
    return Graph(boxes=tuple(boxes.values()), arrows=tuple(dict.fromkeys(arrows)))


def parts_of(pipeline: Pipeline) -> Iterator[tuple[Box, list[Arrow]]]:
    """Yields each box with its incoming arrows."""
    for name, source in pipeline.source.items():
        topics = source.topics or (f"/{source.pattern}/",)
        for topic in topics:
            yield topic_box("in", topic), []
        routes = [Arrow(start=f"in:{topic}", end=name) for topic in topics]
        yield source_box(name, source), routes
    for name, step in pipeline.steps.items():
        if not isinstance(step, Source):
            routes = [Arrow(start=it, end=name) for it in inputs_of(step)]
            yield step_box(pipeline, name, step), routes
    for query in queries_of(pipeline):
        yield from end_parts(query)


def topic_box(side: str, topic: str) -> Box:
    return Box(name=f"{side}:{topic}", shape=Shape.TOPIC, title=topic, kind="topic")


def directory_box(path: str) -> Box:
    return Box(name=f"directory:{path}", shape=Shape.DIRECTORY, title=path, kind="files")


def source_box(name: str, source: Source) -> Box:
    lines = []
    if source.schema:
        lines.append(", ".join(source.schema))
    if source.required:
        lines.append(f"required: {', '.join(source.required)}")
    if source.watermark is not None:
        lines.append(f"{source.event_time}, up to {source.watermark} late")
    if source.format is not Format.RAW and source.dead_letters is None:
        drops = source.broken is Broken.DROP
        lines.append(
            "broken records are dropped" if drops else "a broken record stops the pipeline"
        )
    return Box(
        name=name,
        shape=Shape.SOURCE,
        title=name,
        kind=f"source, {source.format.value}",
        lines=tuple(lines),
    )


def step_box(pipeline: Pipeline, name: str, step: Step) -> Box:
    match step:
        case SqlStep():
            return Box(name=name, shape=Shape.STEP, title=name, kind="sql", lines=sql_lines(step))
        case Window():
            slide = "" if step.slide is None else f", every {step.slide}"
            kind = f"window of {step.size}{slide}"
        case Session():
            kind = f"session, ends after {step.gap} of inactivity"
        case _:
            raise AssertionError(f"{name} is a source")
    by = f"by {', '.join(step.by)}; " if step.by else ""
    measures = tuple(f"{column} = {sql}" for column, sql in step.aggregates.items())
    lines = (f"{by}time: {time_column(pipeline, step)}", *measures)
    return Box(name=name, shape=Shape.STATE, title=name, kind=kind, lines=lines)


def sql_lines(step: SqlStep) -> tuple[str, ...]:
    return tuple(line.strip() for line in step.query.strip().splitlines() if line.strip())


def end_parts(query: Query) -> Iterator[tuple[Box, list[Arrow]]]:
    match target := query.target:
        case DeadLetters():
            end = topic_box("out", target.topic)
            yield end, [Arrow(start=target.source, end=end.name, is_for_broken=True)]
        case Archive():
            end = directory_box(target.path)
            yield archive_box(query, target), [Arrow(start=target.source, end=query.name)]
            yield end, [Arrow(start=query.name, end=end.name)]
        case Sink():
            yield sink_box(query, target), [Arrow(start=target.input, end=query.name)]
            if target.topic is not None or target.path is not None:
                end = (
                    topic_box("out", target.topic)
                    if target.topic
                    else directory_box(target.path or "")
                )
                yield end, [Arrow(start=query.name, end=end.name)]


def archive_box(query: Query, archive: Archive) -> Box:
    return Box(
        name=query.name,
        shape=Shape.SINK,
        title=query.name.partition(".")[2],
        kind=f"archive, {archive.format.value}",
        lines=("unchanged records, exactly-once", pace(query)),
    )


def sink_box(query: Query, sink: Sink) -> Box:
    guarantee = guarantee_of(sink)
    lines = [] if guarantee is None else [guarantee.value]
    if sink.kind in (SinkKind.PARQUET, SinkKind.DELTA):
        lines.append("exactly-once")
    if sink.key is not None:
        lines.append(f"key: {sink.key}")
    if sink.value is not None:
        lines.append(f"value: {sink.value}")
    if sink.mode is not OutputMode.APPEND:
        lines.append(f"{sink.mode.value} mode")
    lines.append(pace(query))
    return Box(
        name=query.name,
        shape=Shape.SINK,
        title=query.name.partition(".")[2],
        kind=f"sink, {sink.kind.value}",
        lines=tuple(lines),
    )


def pace(query: Query) -> str:
    return f"every {query.every}" if query.every.ms else "without interval"
