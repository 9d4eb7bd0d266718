"""What a command leads to: records to be appended as one, and what its sender is told then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pykbroker_protocol.message import Message

Outcome = TypeVar("Outcome")

RECORDS_PER_COMMAND_MAX = 10_000
"""The records of a command are one batch, so that a torn tail takes all of them or none."""


class Decision(NamedTuple, Generic[Outcome]):
    records: Sequence[Message]
    outcome: Outcome
