"""Finds the steps upstream of a step, and the path of a step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.pipeline.declaration.values import SECTIONS, inputs_of

if TYPE_CHECKING:
    from pykbroker.pipeline.declaration.values import Pipeline


def upstream(pipeline: Pipeline, name: str) -> list[str]:
    """Returns all steps upstream of this one, nearest first; includes itself in a cycle."""
    steps, found = pipeline.steps, list(inputs_of(pipeline.steps[name]))
    for it in found:
        found += [further for further in inputs_of(steps[it]) if further not in found]
    return found


def path_of(pipeline: Pipeline, name: str) -> str:
    return next(f"{section}.{name}" for section in SECTIONS if name in getattr(pipeline, section))
