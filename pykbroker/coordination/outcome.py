"""The result of a coordinator's decision: records to write, replies to send, timers to set.

The runtime applies an outcome in this order: it appends the records as one batch, replays them into
the state, sets the timers immediately, and sends the replies when the records are committed. With
`in_parts` it appends several batches and replays each before the next. Deferred names are called
back after all requests that have arrived so far.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, Self

from pykbroker_protocol.late_dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pykbroker_protocol.message import Message

Ticket = int
"""Identifies a request that waits for its reply; a later decision may reply to it."""


class Write(NamedTuple):
    """One record of the coordinator's partition; without a value it is a tombstone."""

    key: Message
    value: Message | None
    value_version: int = 0


class Reply(NamedTuple):
    """The response to a request, which may have been waiting."""

    ticket: Ticket
    response: Message


class SetTimer(NamedTuple):
    """At this time the runtime calls back with the name. Setting a timer again replaces it."""

    name: tuple[str, ...]
    at_ms: int


class CancelTimer(NamedTuple):
    name: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Everything that follows from one request or one timer."""

    writes: tuple[Write, ...] = ()
    replies: tuple[Reply, ...] = ()
    timers: tuple[SetTimer | CancelTimer, ...] = ()
    reasons: tuple[str, ...] = ()
    """Log messages: members that joined, the cause of a rebalance, a fenced producer."""
    in_parts: bool = False
    """True if the log may end after any of the writes; their number is then unlimited."""
    deferred: tuple[tuple[str, ...], ...] = ()
    """Names to call back with, like those of timers, independent of the clock."""
    deferred_tickets: tuple[Ticket, ...] = ()
    """Requests that wait for a deferred decision; they fail if the records cannot be written."""

    def with_deferred(self, name: tuple[str, ...], deferred_tickets: tuple[Ticket, ...]) -> Self:
        """Returns the same outcome with another deferred decision."""
        return replace(
            self,
            deferred=(*self.deferred, name),
            deferred_tickets=(*self.deferred_tickets, *deferred_tickets),
        )


def merged(outcomes: Iterable[Outcome]) -> Outcome:
    """Merges several outcomes of one moment into one."""
    parts = tuple(outcomes)
    return Outcome(
        writes=tuple(write for part in parts for write in part.writes),
        replies=tuple(reply for part in parts for reply in part.replies),
        timers=tuple(timer for part in parts for timer in part.timers),
        reasons=tuple(reason for part in parts for reason in part.reasons),
        deferred=tuple(name for part in parts for name in part.deferred),
        deferred_tickets=tuple(ticket for part in parts for ticket in part.deferred_tickets),
    )
