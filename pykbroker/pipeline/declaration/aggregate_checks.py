"""Validates windows and sessions, which keep rows until the watermark passes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.pipeline.declaration.upstream_steps import path_of, upstream
from pykbroker.pipeline.declaration.values import OutputMode, Session, Window

if TYPE_CHECKING:
    from pykbroker.pipeline.declaration.problems import Problems
    from pykbroker.pipeline.declaration.values import Pipeline


def check_aggregates(pipeline: Pipeline, problems: Problems) -> None:
    for name, step in pipeline.steps.items():
        if isinstance(step, Window | Session):
            check_aggregate(step, name, pipeline, problems)


def check_aggregate(
    step: Window | Session, name: str, pipeline: Pipeline, problems: Problems
) -> None:
    path, upstream_steps = path_of(pipeline, name), upstream(pipeline, name)
    for it in upstream_steps:
        if it in pipeline.window or it in pipeline.session:
            message = f"{it} is an aggregate; write it to a topic and read that topic as a source"
            problems.add(f"{path}.input", message)
    check_time(step, path, pipeline, problems)
    if isinstance(step, Session):
        check_session_sinks(pipeline, name, problems)
    if not step.aggregates:
        problems.add(f"{path}.aggregates", "is missing: define at least one new column")
    if isinstance(step, Window) and step.slide is not None and step.slide > step.size:
        problems.add(
            f"{path}.slide", "is longer than the window: rows between windows would be lost"
        )
    for column in step.aggregates:
        if column in step.by:
            problems.add(f"{path}.aggregates.{column}", "is also a column of `by`")


def check_time(step: Window | Session, path: str, pipeline: Pipeline, problems: Problems) -> None:
    """An aggregate needs one time and one watermark, its own or those of its source."""
    upstream_steps = {step.input, *upstream(pipeline, step.input)}
    sources = [source for name, source in pipeline.source.items() if name in upstream_steps]
    times = {it.event_time for it in sources if it.event_time is not None}
    if step.watermark is None and not times:
        problems.add(f"{path}.watermark", "is missing: without a watermark no aggregate is final")
    if step.watermark is not None and times:
        problems.add(f"{path}.watermark", "conflicts with the watermark of the source")
    if step.time is None and len(times) != 1:
        problems.add(f"{path}.time", "is missing: the column with the time of a row")


def check_session_sinks(pipeline: Pipeline, session: str, problems: Problems) -> None:
    for name, sink in pipeline.sink.items():
        reads = {sink.input, *upstream(pipeline, sink.input)}
        if session in reads and sink.mode is OutputMode.UPDATE:
            problems.add(
                f"sink.{name}.mode", f"Spark does not support update mode for the session {session}"
            )
