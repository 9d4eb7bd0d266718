"""What an assignor is asked and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from pykbroker_protocol.late_dataclass import dataclass


class Place(NamedTuple):
    """One partition of one topic; places are ordered by topic, then by number."""

    topic_id: bytes
    partition: int


Assignment = Mapping[bytes, frozenset[int]]
"""Partitions by topic id; a topic without partitions is left out."""

NOTHING: Assignment = {}


class Subscriber(NamedTuple):
    """A member as an assignor sees it; `owned` is what it was meant to have so far.

    A tuple, because each assignment makes as many as there are members.
    """

    member_id: str
    topic_ids: frozenset[bytes]
    owned: Assignment = NOTHING
    instance_id: str | None = None
    rack_id: str | None = None

    @property
    def lasting_name(self) -> str:
        """Static members keep their name through restarts, and with it their place in an order."""
        return self.instance_id or self.member_id


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicToAssign:
    """How many partitions there are, and the racks that hold a replica of each."""

    partition_count: int
    racks: Sequence[frozenset[str]] = ()
    """By partition; empty where racks are not known."""

    def is_near(self, partition: int, rack_id: str | None) -> bool:
        return rack_id is not None and bool(self.racks) and rack_id in self.racks[partition]


Result = TypeVar("Result")
Steps = Generator[int, None, Result]
"""Yields the effort of each step in set or dictionary operations, and returns a result."""

OPERATIONS_PER_STEP = 100
"""Where single operations are counted, a step has that many."""


def in_one_piece(steps: Steps[Result]) -> Result:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result


class Assignor:
    """Gives every subscriber its share, in steps; called, in one piece.

    Topics that do not exist any more are not in the mapping.
    """

    def __init__(
        self,
        in_steps: Callable[
            [Sequence[Subscriber], Mapping[bytes, TopicToAssign]], Steps[Mapping[str, Assignment]]
        ],
    ) -> None:
        self.in_steps = in_steps

    def __call__(
        self, subscribers: Sequence[Subscriber], topics: Mapping[bytes, TopicToAssign]
    ) -> Mapping[str, Assignment]:
        return in_one_piece(self.in_steps(subscribers, topics))
