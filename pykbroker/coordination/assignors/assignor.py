"""The interface of an assignor: its inputs and its result."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from pykbroker.generators import run_to_end
from pykbroker_protocol.late_dataclass import dataclass


class TopicIdPartition(NamedTuple):
    """A partition of a topic, ordered by topic id and number."""

    topic_id: bytes
    partition: int


Assignment = Mapping[bytes, frozenset[int]]
"""Partitions by topic id; topics without partitions are omitted."""

NOTHING: Assignment = {}


class Subscriber(NamedTuple):
    """A member as input of an assignor; `owned` is its previous target assignment.

    A tuple, because each assignment creates one per member.
    """

    member_id: str
    topic_ids: frozenset[bytes]
    owned: Assignment = NOTHING
    instance_id: str | None = None
    rack_id: str | None = None

    @property
    def stable_id(self) -> str:
        """Key for a stable order: static members keep their instance id across restarts."""
        return self.instance_id or self.member_id


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicToAssign:
    """Partition count of a topic, and the racks with replicas of each partition."""

    partition_count: int
    racks: Sequence[frozenset[str]] = ()
    """By partition; empty if racks are unknown."""

    def is_near(self, partition: int, rack_id: str | None) -> bool:
        return rack_id is not None and bool(self.racks) and rack_id in self.racks[partition]


Result = TypeVar("Result")
Steps = Generator[int, None, Result]
"""Yields the effort of each step in set or dictionary operations and returns a result."""

OPERATIONS_PER_STEP = 100
"""Number of single operations that are counted as one step."""


class Assignor:
    """Assigns partitions to all subscribers, in steps or, when called, without a pause.

    Topics that no longer exist are missing in the mapping.
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
        return run_to_end(self.in_steps(subscribers, topics))
