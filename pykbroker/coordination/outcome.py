"""What a decision of a coordinator amounts to: records to write, replies to give, timers to set.

The runtime carries an outcome out in this order: it appends the records as one batch, replays them
into the state, sets the timers at once, and releases the replies when the records are committed.
What may go in parts it appends as several batches, each replayed before the next. What is put off
it calls back for as soon as all requests that have come in by now are decided.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, Self

from pykbroker_protocol.late_dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pykbroker_protocol.message import Message

Ticket = int
"""Stands for a request that waits for its reply; a reply may come with a later decision."""


class Write(NamedTuple):
    """One record of the coordinator's log; without a value it is a tombstone."""

    key: Message
    value: Message | None
    value_version: int = 0


class Reply(NamedTuple):
    """The answer to a request, which may have been parked for a while."""

    ticket: Ticket
    response: Message


class SetTimer(NamedTuple):
    """When the time comes the runtime calls back with the name; setting it again replaces it."""

    name: tuple[str, ...]
    at_ms: int


class CancelTimer(NamedTuple):
    name: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """All that follows from one request, or from a timer that has fired."""

    writes: tuple[Write, ...] = ()
    replies: tuple[Reply, ...] = ()
    timers: tuple[SetTimer | CancelTimer, ...] = ()
    reasons: tuple[str, ...] = ()
    """Sentences for the operator: who joined, why a group rebalances, who was fenced."""
    in_parts: bool = False
    """Whether the log may end between any two of the writes: then no number of them is too many."""
    put_off: tuple[tuple[str, ...], ...] = ()
    """Names to call back with, as with those of timers, whatever the clock says."""
    waits: tuple[Ticket, ...] = ()
    """Requests that wait for it; refused where the records cannot be written."""

    def then(self, name: tuple[str, ...], waits: tuple[Ticket, ...]) -> Self:
        """The same outcome, with one more decision that is put off."""
        return replace(self, put_off=(*self.put_off, name), waits=(*self.waits, *waits))


def joined(outcomes: Iterable[Outcome]) -> Outcome:
    """Several outcomes of one moment, carried out as one."""
    parts = tuple(outcomes)
    return Outcome(
        writes=tuple(write for part in parts for write in part.writes),
        replies=tuple(reply for part in parts for reply in part.replies),
        timers=tuple(timer for part in parts for timer in part.timers),
        reasons=tuple(reason for part in parts for reason in part.reasons),
        put_off=tuple(name for part in parts for name in part.put_off),
        waits=tuple(ticket for part in parts for ticket in part.waits),
    )
