"""Several members of a group that poll concurrently, as rebalances require."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from compat.suite.actor import Polled, polled
from compat.suite.assertions import must
from compat.suite.timeout_factor import scaled

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from compat.suite.actor import Actor, PartitionKey
    from compat.suite.records import Read

ROUND_MS = 1_000
SHARE_SECONDS_MAX = 40.0


def round_of_polls(actors: Sequence[Actor], *, timeout_ms: int = ROUND_MS) -> list[Polled]:
    """Polls once with each actor, concurrently."""
    for actor in actors:
        actor.begin_to("poll", "c", timeout_ms=timeout_ms)
    return [polled(actor.finish()) for actor in actors]


@dataclass(slots=True)
class Members:
    """Members of one group with their records and current assignments."""

    actors: list[Actor]
    read: list[Read] = field(default_factory=list)
    owned: list[frozenset[PartitionKey]] = field(default_factory=list)

    def poll(self) -> None:
        polls = round_of_polls(self.actors)
        self.owned = [it.assignment for it in polls]
        for it in polls:
            self.read += it.records

    def until_shared(self, partitions: Iterable[PartitionKey]) -> None:
        """Polls until each partition has one owner and the assignment is balanced."""
        expected = frozenset(partitions)
        deadline = time.monotonic() + scaled(SHARE_SECONDS_MAX)
        while not self._is_shared(expected):
            shares = [sorted(it) for it in self.owned]
            must(time.monotonic() < deadline, f"{sorted(expected)} not assigned evenly: {shares}")
            self.poll()

    def until_read(self, count: int, *, seconds: float = 30.0) -> None:
        deadline = time.monotonic() + scaled(seconds)
        while len(self.read) < count:
            must(time.monotonic() < deadline, f"{len(self.read)} of {count} records were read")
            self.poll()

    def _is_shared(self, expected: frozenset[PartitionKey]) -> bool:
        if len(self.owned) != len(self.actors):
            return False
        fair = -(-len(expected) // len(self.actors))
        return (
            frozenset().union(*self.owned) == expected
            and sum(map(len, self.owned)) == len(expected)
            and max(map(len, self.owned)) <= fair
        )
