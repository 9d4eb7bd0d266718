"""What a coordinator remembers of a consumer group and may forget without harm."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.coordination.groups.consumer_topics import NO_TOPICS, fingerprint

if TYPE_CHECKING:
    from pykbroker.coordination.groups.consumer_topics import TopicsView

NEVER = -1
Subscriptions = tuple[frozenset[str], ...]


class Memory:
    """Spares computations, and knows since when members have been asked to rejoin."""

    __slots__ = (
        "_fingerprint",
        "_fingerprint_of",
        "asked_to_rejoin_at_ms",
        "looked_at",
        "shared_out_at_epoch",
    )

    def __init__(self) -> None:
        self._fingerprint_of: tuple[int, Subscriptions] = (NEVER, ())
        self._fingerprint = NO_TOPICS
        self.looked_at: dict[str, tuple[int, int]] = {}
        """By regular expression: at which version of the topics, and when, it was matched."""
        self.asked_to_rejoin_at_ms: dict[str, int] = {}
        """By member id, for members of the classic protocol."""
        self.shared_out_at_epoch = NEVER
        """The assignment that was computed here, so that it means no partition for two members.

        What a log tells, or the leader of a classic group has decided, need not be such.
        """

    def fingerprint(self, subscriptions: Subscriptions, topics: TopicsView) -> int:
        asked = (topics.version, subscriptions)
        if asked != self._fingerprint_of:
            self._fingerprint = fingerprint(subscriptions, topics)
            self._fingerprint_of = asked
        return self._fingerprint
