"""State of a consumer group that is not in the log and may be lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.coordination.groups.consumer_topics import NO_TOPICS, fingerprint

if TYPE_CHECKING:
    from pykbroker.coordination.groups.consumer_topics import TopicsView

NEVER = -1
Subscriptions = tuple[frozenset[str], ...]


class GroupCache:
    """Cached computations, and the times at which members were requested to rejoin."""

    __slots__ = (
        "_fingerprint",
        "_fingerprint_of",
        "disjoint_at_epoch",
        "matched_at",
        "rejoin_requested_at_ms",
    )

    def __init__(self) -> None:
        self._fingerprint_of: tuple[int, Subscriptions] = (NEVER, ())
        self._fingerprint = NO_TOPICS
        self.matched_at: dict[str, tuple[int, int]] = {}
        """By regular expression: version of the topics and time of the last match."""
        self.rejoin_requested_at_ms: dict[str, int] = {}
        """By member id, for members of the classic protocol."""
        self.disjoint_at_epoch = NEVER
        """Epoch of a target that was computed here, so that no two members share a partition.

        Targets from a log or from the leader of a classic group may overlap.
        """

    def fingerprint(self, subscriptions: Subscriptions, topics: TopicsView) -> int:
        inputs = (topics.version, subscriptions)
        if inputs != self._fingerprint_of:
            self._fingerprint = fingerprint(subscriptions, topics)
            self._fingerprint_of = inputs
        return self._fingerprint
