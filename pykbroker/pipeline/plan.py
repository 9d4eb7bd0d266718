"""The Spark queries of a pipeline: one for each sink, archive and dead-letter topic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from pykbroker.pipeline.declaration.values import (
    Archive,
    FileFormat,
    Format,
    Guarantee,
    OutputMode,
    Session,
    Sink,
    SinkKind,
    Window,
    inputs_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pykbroker.pipeline.declaration.durations import Duration
    from pykbroker.pipeline.declaration.values import Pipeline


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetters:
    """Topic for the broken records of a source."""

    source: str
    topic: str
    guarantee: Guarantee


Target: TypeAlias = Sink | Archive | DeadLetters


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A stream from topics to a target, with its own checkpoint."""

    name: str
    target: Target
    steps: tuple[str, ...]
    """Steps that feed the target, each after its inputs."""
    every: Duration
    mode: OutputMode = OutputMode.APPEND


def queries_of(pipeline: Pipeline) -> tuple[Query, ...]:
    """Returns archives, then dead letters, then sinks, each in the order of the declaration."""
    return (*archives(pipeline), *dead_letters(pipeline), *sinks(pipeline))


def archives(pipeline: Pipeline) -> Iterator[Query]:
    for name, archive in pipeline.archive.items():
        yield Query(
            name=f"archive.{name}",
            target=archive,
            steps=(archive.source,),
            every=archive.every or pipeline.every,
        )


def dead_letters(pipeline: Pipeline) -> Iterator[Query]:
    for name, source in pipeline.source.items():
        if source.dead_letters is not None:
            yield Query(
                name=f"dead_letters.{name}",
                target=DeadLetters(
                    source=name, topic=source.dead_letters, guarantee=source.dead_letters_guarantee
                ),
                steps=(name,),
                every=pipeline.every,
            )


def sinks(pipeline: Pipeline) -> Iterator[Query]:
    for name, sink in pipeline.sink.items():
        yield Query(
            name=f"sink.{name}",
            target=sink,
            steps=steps_in_order(pipeline, sink.input),
            every=sink.every or pipeline.every,
            mode=sink.mode,
        )


def steps_in_order(pipeline: Pipeline, name: str) -> tuple[str, ...]:
    """Returns the steps upstream of this step, each after its inputs, and the step itself last."""
    order: dict[str, None] = {}
    for input_name in inputs_of(pipeline.steps[name]):
        order |= dict.fromkeys(steps_in_order(pipeline, input_name))
    return (*order, name)


def sources_of(pipeline: Pipeline, query: Query) -> tuple[str, ...]:
    return tuple(step for step in query.steps if step in pipeline.source)


def aggregates_of(pipeline: Pipeline, query: Query) -> dict[str, Window | Session]:
    """Returns the windows and sessions of a query."""
    steps = pipeline.steps
    return {it: step for it in query.steps if isinstance(step := steps[it], Window | Session)}


def guarantee_of(target: Target) -> Guarantee | None:
    """Returns the delivery guarantee of a topic; None for other targets."""
    match target:
        case DeadLetters():
            return target.guarantee
        case Sink(kind=SinkKind.TOPIC):
            return target.guarantee or Guarantee.EXACTLY_ONCE
        case _:
            return None


def needs_delta(pipeline: Pipeline) -> bool:
    """True if a sink or an archive is a Delta table."""
    in_sinks = any(sink.kind is SinkKind.DELTA for sink in pipeline.sink.values())
    return in_sinks or any(it.format is FileFormat.DELTA for it in pipeline.archive.values())


def needs_avro(pipeline: Pipeline) -> bool:
    return any(source.format is Format.AVRO for source in pipeline.source.values())


def time_column(pipeline: Pipeline, aggregate: Window | Session) -> str:
    """Returns the time column of an aggregate: its own, or the event time of its source."""
    if aggregate.time is not None:
        return aggregate.time
    steps = steps_in_order(pipeline, aggregate.input)
    times = (pipeline.source[step].event_time for step in steps if step in pipeline.source)
    return next(time for time in times if time is not None)
