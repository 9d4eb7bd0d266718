"""Matches regular expressions of groups against topic names, in slices and one after the other.

Most expressions are matched within the decision about a heartbeat. Costly ones are queued here, so
that they do not block the event loop. A heartbeat with a new expression waits for its result; a
known expression keeps its previous topics meanwhile. Only the first in the queue uses memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pykbroker.coordination.groups.consumer_regex import (
    SLICE_EFFORT,
    BadRegex,
    Matching,
    compile_regex,
)

if TYPE_CHECKING:
    from pykbroker.coordination.groups.consumer_topics import TopicsView
    from pykbroker.coordination.outcome import Ticket
    from pykbroker_protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


COMPILING_EFFORT = 10
"""Edges counted per character of an expression: 17 ms for the longest expression."""


class Arrived(NamedTuple):
    """A heartbeat with its connection and a random member id."""

    request: ConsumerGroupHeartbeatRequest
    ticket: Ticket
    version: int
    client_id: str
    client_host: str
    new_member_id: str


class Matched(NamedTuple):
    """The topics that an expression matches, at one version of the topics."""

    names: frozenset[str] | None
    """None if the expression is invalid or too costly."""
    version: int
    refusal: str = ""
    """The reason if there are no names."""


class Done(NamedTuple):
    """A matched expression and one waiting heartbeat; None for a known expression."""

    group_id: str
    regex: str
    matched: Matched
    arrived: Arrived | None


class Matchings:
    """The queue of one partition of `__consumer_offsets`."""

    __slots__ = ("_matched", "_queue", "_running")

    def __init__(self) -> None:
        self._queue: dict[tuple[str, str], dict[Ticket, Arrived]] = {}
        """By group id and expression: waiting heartbeats; none for a known expression."""
        self._running: tuple[Matching, int] | None = None
        """Matching of the first in the queue, and the version of the topics."""
        self._matched: Matched | None = None
        """Result of the first in the queue, while its heartbeats are decided."""

    def __bool__(self) -> bool:
        return bool(self._queue)

    def tickets(self) -> tuple[Ticket, ...]:
        return tuple(ticket for waiting in self._queue.values() for ticket in waiting)

    def wait(self, arrived: Arrived, regex: str) -> None:
        self._queue.setdefault((arrived.request.group_id, regex), {})[arrived.ticket] = arrived

    def refresh(self, group_id: str, regex: str) -> None:
        self._queue.setdefault((group_id, regex), {})

    def remove(self, group_id: str, ticket: Ticket) -> None:
        """Removes a heartbeat after a disconnect; an expression without others is not matched."""
        for key, waiting in list(self._queue.items()):
            if key[0] == group_id and waiting.pop(ticket, None) is not None and not waiting:
                self._remove(key)

    def _remove(self, key: tuple[str, str]) -> None:
        if key == next(iter(self._queue)):
            self._running = self._matched = None
        del self._queue[key]

    def step(self, topics: TopicsView) -> Done | None:
        """Works for one slice; returns a result if the first in the queue is matched."""
        key = next(iter(self._queue))
        group_id, regex = key
        if self._matched is None:
            self._matched = self._advance(regex, topics)
        if self._matched is None:
            return None
        matched, waiting = self._matched, self._queue[key]
        arrived = waiting.pop(next(iter(waiting))) if waiting else None
        if not waiting:
            self._remove(key)
        return Done(group_id, regex, matched, arrived)

    def _advance(self, regex: str, topics: TopicsView) -> Matched | None:
        try:
            if self._running is None:
                self._running = Matching(compile_regex(regex), topics.names()), topics.version
                return None  # compiling a long expression can take a whole slice
            matching, version = self._running
            if not matching.advance(SLICE_EFFORT):
                return None
        except BadRegex as bad:
            return Matched(None, topics.version, str(bad))
        return Matched(matching.found, version)


def match_at_once(regex: str, topics: TopicsView, effort: int) -> tuple[Matched | None, int]:
    """Tries to match within an effort; returns the result and the remaining effort."""
    effort_of_compiling = len(regex) * COMPILING_EFFORT
    if effort <= effort_of_compiling:
        return None, effort
    try:
        matching = Matching(compile_regex(regex), topics.names())
    except BadRegex as bad:
        return Matched(None, topics.version, str(bad)), effort - effort_of_compiling
    if not matching.advance(effort - effort_of_compiling):
        return None, 0
    return Matched(matching.found, topics.version), matching.effort_left
