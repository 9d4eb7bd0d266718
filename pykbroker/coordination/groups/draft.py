"""Collects the parts of an outcome while a decision runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.coordination.outcome import CancelTimer, Outcome, Reply, SetTimer, Write

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pykbroker.coordination.outcome import Ticket
    from pykbroker_protocol.message import Message


class Draft:
    """The outcome of one decision, under construction.

    A decision that may end after any of its writes, such as expiration, is written `in_parts`.
    """

    __slots__ = (
        "deferred",
        "deferred_tickets",
        "in_parts",
        "now_ms",
        "reasons",
        "replies",
        "timers",
        "writes",
    )

    def __init__(self, now_ms: int, *, in_parts: bool = False) -> None:
        self.now_ms = now_ms
        self.writes: list[Write] = []
        self.replies: list[Reply] = []
        self.timers: dict[tuple[str, ...], SetTimer | CancelTimer] = {}
        self.reasons: list[str] = []
        self.deferred: tuple[tuple[str, ...], ...] = ()
        self.deferred_tickets: tuple[Ticket, ...] = ()
        self.in_parts = in_parts

    def write(self, writes: Iterable[Write]) -> None:
        self.writes.extend(writes)

    def reply(self, ticket: Ticket | None, response: Message) -> None:
        """Adds a response; a request whose connection was lost has no ticket and gets none."""
        if ticket is not None:
            self.replies.append(Reply(ticket, response))

    def set_timer(self, *name: str, after_ms: int) -> None:
        self.timers[name] = SetTimer(name, self.now_ms + after_ms)

    def cancel_timer(self, *name: str) -> None:
        self.timers[name] = CancelTimer(name)

    def defer(self, *name: str, deferred_tickets: Iterable[Ticket] = ()) -> None:
        """Defers the rest of a decision until all requests that have arrived so far are decided."""
        self.deferred += (name,)
        self.deferred_tickets += tuple(deferred_tickets)

    def add_reason(self, reason: str) -> None:
        self.reasons.append(reason)

    def outcome(self) -> Outcome:
        return Outcome(
            writes=tuple(self.writes),
            replies=tuple(self.replies),
            timers=tuple(self.timers.values()),
            reasons=tuple(self.reasons),
            in_parts=self.in_parts,
            deferred=self.deferred,
            deferred_tickets=self.deferred_tickets,
        )
