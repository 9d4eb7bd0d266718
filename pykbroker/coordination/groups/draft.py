"""An outcome in the making: what a decision gathers while it walks through the rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.coordination.outcome import CancelTimer, Outcome, Reply, SetTimer, Write

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pykbroker.coordination.outcome import Ticket
    from pykbroker_protocol.message import Message


class Draft:
    """Lives as long as one decision, which happens at one moment.

    One that may end after any of its writes, as one that only forgets, is written `in_parts`.
    """

    __slots__ = (
        "in_parts",
        "now_ms",
        "put_off",
        "reasons",
        "replies",
        "timers",
        "waits",
        "writes",
    )

    def __init__(self, now_ms: int, *, in_parts: bool = False) -> None:
        self.now_ms = now_ms
        self.writes: list[Write] = []
        self.replies: list[Reply] = []
        self.timers: dict[tuple[str, ...], SetTimer | CancelTimer] = {}
        self.reasons: list[str] = []
        self.put_off: tuple[tuple[str, ...], ...] = ()
        self.waits: tuple[Ticket, ...] = ()
        self.in_parts = in_parts

    def write(self, writes: Iterable[Write]) -> None:
        self.writes.extend(writes)

    def reply(self, ticket: Ticket | None, response: Message) -> None:
        """Answer a request; one whose connection was lost has no ticket and hears nothing."""
        if ticket is not None:
            self.replies.append(Reply(ticket, response))

    def wake(self, *name: str, after_ms: int) -> None:
        self.timers[name] = SetTimer(name, self.now_ms + after_ms)

    def let_sleep(self, *name: str) -> None:
        self.timers[name] = CancelTimer(name)

    def go_on_soon(self, *name: str, waits: Iterable[Ticket] = ()) -> None:
        """The rest is decided once all that has come in by now is heard."""
        self.put_off += (name,)
        self.waits += tuple(waits)

    def because(self, reason: str) -> None:
        self.reasons.append(reason)

    def outcome(self) -> Outcome:
        return Outcome(
            writes=tuple(self.writes),
            replies=tuple(self.replies),
            timers=tuple(self.timers.values()),
            reasons=tuple(self.reasons),
            in_parts=self.in_parts,
            put_off=self.put_off,
            waits=self.waits,
        )
