"""The parts of a query that its checkpoint depends on, and the check that they are unchanged."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from pykbroker.pipeline.declaration.values import Archive, FileFormat, SqlStep, Window
from pykbroker.pipeline.plan import aggregates_of, sources_of, time_column

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pykbroker.pipeline.declaration.values import Pipeline, Session
    from pykbroker.pipeline.plan import Query

# Words that make Spark keep state. A false match only requires a new checkpoint.
STATEFUL_WORDS: Final = re.compile(
    r"(?i)\b(?:group\s+by|distinct|window|session_window|union|intersect|except|minus|join)\b"
)
AGGREGATE: Final = re.compile(
    r"(?i)\b(?:any|any_value|approx_\w+|avg|bit_(?:and|or|xor)|bitmap_\w+_agg|bool_(?:and|or)"
    r"|collect_\w+|corr|count|count_if|count_min_sketch|covar_\w+|every|first|first_value"
    r"|grouping|grouping_id|histogram_numeric|\w+_agg|\w+_agg_\w+|kurtosis|last|last_value|listagg"
    r"|max|max_by|mean|median|min|min_by|mode|percentile|percentile_\w+|regr_\w+|skewness|some"
    r"|std|stddev|stddev_\w+|sum|try_avg|try_sum|var_\w+|variance)\s*\("
)


class DefinitionChanged(Exception):
    """Raised if the checkpoint of a query does not fit its declaration."""


def fingerprint_of(pipeline: Pipeline, query: Query) -> dict[str, str]:
    """Returns the parts that must not change, by key: sources of offsets, shape of the state."""
    sources = sources_of(pipeline, query)
    parts = {"sources": ", ".join(sources)}
    for name in sources:
        source = pipeline.source[name]
        parts[f"source.{name}.topics"] = source.pattern or ", ".join(sorted(source.topics))
    if isinstance(query.target, Archive):
        parts[f"{query.name}.path"] = query.target.path
        parts[f"{query.name}.format"] = query.target.format.value
    state = state_parts(pipeline, query)
    if state:
        state[f"{query.name}.mode"] = query.mode.value
    return parts | state


def state_parts(pipeline: Pipeline, query: Query) -> dict[str, str]:
    """Returns the parts that shape the state; empty for a stateless query."""
    parts: dict[str, str] = {}
    for name, aggregate in aggregates_of(pipeline, query).items():
        parts |= aggregate_parts(pipeline, name, aggregate)
    for name in query.steps:
        step = pipeline.steps[name]
        if isinstance(step, SqlStep) and is_stateful(step):
            parts[f"sql.{name}.query"] = " ".join(step.query.split())
    return parts


def is_stateful(step: SqlStep) -> bool:
    """True if the query needs more than one row at a time or reads a stream twice."""
    words = (STATEFUL_WORDS.search(step.query), AGGREGATE.search(step.query))
    return len(step.inputs) > 1 or any(words) or any(reads_twice(step, it) for it in step.inputs)


def reads_twice(step: SqlStep, name: str) -> bool:
    """True for `FROM trucks a, trucks b`, false for `SELECT speed, trucks.at FROM trucks`."""
    return len(re.findall(rf"(?i)(?:\bfrom\b|,)\s*`?{name}\b(?!`?\s*\.)", step.query)) > 1


def aggregate_parts(pipeline: Pipeline, name: str, aggregate: Window | Session) -> dict[str, str]:
    if isinstance(aggregate, Window):
        path = f"window.{name}"
        own = {"size": str(aggregate.size), "slide": str(aggregate.slide or aggregate.size)}
    else:
        path = f"session.{name}"
        own = {"gap": str(aggregate.gap)}
    own["time"] = time_column(pipeline, aggregate)
    own["by"] = ", ".join(aggregate.by)
    own["aggregates"] = ", ".join(f"{sql} AS {it}" for it, sql in aggregate.aggregates.items())
    return {f"{path}.{key}": value for key, value in own.items()}


def differences(kept: Mapping[str, str], declared: Mapping[str, str]) -> list[str]:
    """Returns `window.w.size was 5 minutes and is 1 hour` for each changed part."""
    return [
        f"{part} was {kept.get(part) or 'nothing'} and is {declared.get(part) or 'nothing'}"
        for part in dict.fromkeys((*kept, *declared))
        if kept.get(part, "") != declared.get(part, "")
    ]


def check_unchanged(
    query: Query, kept: Mapping[str, str], declared: Mapping[str, str], directory: str
) -> None:
    """Raises `DefinitionChanged` with the changes and both remedies."""
    changed = differences(kept, declared)
    if changed:
        raise DefinitionChanged(
            f"{query.name} has a checkpoint that does not fit this declaration:\n"
            + "".join(f"  {change}\n" for change in changed)
            + "Either restore the previous declaration, which keeps the state; or delete\n"
            f"  {directory}\n"
            f"and {query.name} starts again at the start position of its sources. "
            + output_text(query)
        )


def output_text(query: Query) -> str:
    if isinstance(query.target, Archive) and query.target.format is FileFormat.PARQUET:
        return "With skip_archived = true it skips archived records."
    return "Its previous output is kept."
