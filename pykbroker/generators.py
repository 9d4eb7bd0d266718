"""Runs generators that yield between slices of work and return a result."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Generator

T = TypeVar("T")


def run_to_end(generator: Generator[object, None, T]) -> T:
    """Runs a generator to its end without a pause and returns its result."""
    while True:
        try:
            next(generator)
        except StopIteration as end:
            result: T = end.value
            return result
