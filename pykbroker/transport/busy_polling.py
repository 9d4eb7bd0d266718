"""Decides when the event loop polls for the next request instead of blocking until it arrives.

Blocking and waking up take longer than a request, and nearly as much CPU as polling. Therefore the
event loop polls for a moment after each response, as long as that finds requests (decision 14).
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio

POLL_SECONDS: Final = 30e-6
"""A client on the same host has received its response and sent the next request by then."""

ITERATIONS_MIN: Final = 8
"""Polling with fewer served iterations than this was useless. Responses sent in one iteration count
once, because the loop did not have to poll for them."""

SKIPPED_MAX: Final = 1024
"""Maximum number of responses without polling after them, when earlier polling was useless."""


class BusyPolling:
    """Counts the iterations with responses of a poll; doubles the pause after each useless poll."""

    __slots__ = (
        "_deadline",
        "_has_responded",
        "_iterations",
        "_next_skipped",
        "_skipped",
        "is_polling",
    )

    def __init__(self) -> None:
        self.is_polling = False
        self._deadline = 0.0
        self._iterations = 0
        """Iterations of the loop with a response since the poll started."""
        self._has_responded = False
        self._skipped = 0
        """Responses to skip before the next poll."""
        self._next_skipped = 1

    def responded(self, now_seconds: float) -> bool:
        """Notes a response; returns True if a poll must be started."""
        if self.is_polling:
            self._has_responded = True
            self._deadline = now_seconds + POLL_SECONDS
            return False
        if self._skipped:
            self._skipped -= 1
            return False
        self.is_polling = True
        self._iterations = 0
        self._has_responded = False
        self._deadline = now_seconds + POLL_SECONDS
        return True

    def continues(self, now_seconds: float) -> bool:
        """Called after each iteration of the loop; returns False if the loop may block again."""
        if self._has_responded:
            self._iterations += 1
            self._has_responded = False
        if now_seconds < self._deadline:
            return True
        self.is_polling = False
        if self._iterations >= ITERATIONS_MIN:
            self._next_skipped = 1
        else:
            self._skipped = self._next_skipped
            self._next_skipped = min(2 * self._next_skipped, SKIPPED_MAX)
        return False


class LoopPoller:
    """Polls by scheduling a callback for the next iteration, which keeps the loop from blocking."""

    __slots__ = ("_loop", "_polling")

    def __init__(self, loop: asyncio.AbstractEventLoop, polling: BusyPolling) -> None:
        self._loop = loop
        self._polling = polling

    def responded(self) -> None:
        if self._polling.responded(perf_counter()):
            self._loop.call_soon(self._poll)

    def _poll(self) -> None:
        if self._polling.continues(perf_counter()):
            self._loop.call_soon(self._poll)
