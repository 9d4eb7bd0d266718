"""The decision on a command: records of one batch, and the outcome once they are committed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from pykbroker_protocol.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pykbroker_protocol.message import Message

Outcome = TypeVar("Outcome")

RECORDS_PER_COMMAND_MAX = 10_000
"""The records of a command are one batch, so a torn log tail loses all of them or none."""


TOO_MANY_RECORDS = Refusal(
    ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation."
)


class Decision(NamedTuple, Generic[Outcome]):
    records: Sequence[Message]
    outcome: Outcome


def bounded(
    records: Sequence[Message], outcomes: list[Outcome | Refusal]
) -> Decision[list[Outcome | Refusal]]:
    """Returns a decision on several objects; refuses all if there are too many records."""
    if len(records) > RECORDS_PER_COMMAND_MAX:
        return Decision((), [TOO_MANY_RECORDS for _ in outcomes])
    return Decision(records, outcomes)
