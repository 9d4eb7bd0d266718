"""Validates topic names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pykbroker_protocol.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME_LETTERS_MAX = 249
"""The folder of a partition adds a dash and a number, and a suffix when it is deleted."""

CLUSTER_METADATA_TOPIC = "__cluster_metadata"
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")
_COLLIDING = frozenset("._")


def refuse_name(name: str) -> Refusal | None:
    problem = _problem(name)
    if problem is None:
        return None
    return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")


def _problem(name: str) -> str | None:
    if not name:
        return "the empty string is not allowed"
    if name in {".", ".."}:
        return f"'{name}' is not allowed"
    if len(name) > NAME_LETTERS_MAX:
        return f"the length of '{name}' is longer than the max allowed length {NAME_LETTERS_MAX}"
    if not _LEGAL.fullmatch(name):
        return (
            f"'{name}' contains one or more characters other than "
            "ASCII alphanumerics, '.', '_' and '-'"
        )
    return None


def refuse_collision(name: str, existing: Mapping[str, str]) -> Refusal | None:
    """Refuses names that differ from an existing topic only in dots and underscores.

    Metrics replace dots by underscores. `existing` has topics by their unified name.
    """
    other = existing.get(unified(name)) if can_collide(name) else None
    if other is None or other == name:
        return None
    return Refusal(
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        f"Topic '{name}' collides with existing topic: {other}",
    )


def can_collide(name: str) -> bool:
    return not _COLLIDING.isdisjoint(name)


def unified(name: str) -> str:
    return name.replace(".", "_")
