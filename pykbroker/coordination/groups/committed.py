"""How far groups have read: the offsets that count, and those of transactions still open."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pykbroker_protocol.internal_topics.offsets import OffsetCommitValue

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pykbroker_protocol.internal_topics.offsets import OffsetCommitKey

NO_OFFSET = -1
NO_LEADER_EPOCH = -1
NEVER = -1

Place = tuple[str, str, int]
"""A group, a topic, a partition."""


class Committed(NamedTuple):
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int
    topic_id: bytes

    def as_value(self) -> OffsetCommitValue:
        return OffsetCommitValue(
            offset=self.offset,
            leader_epoch=self.leader_epoch,
            metadata=self.metadata,
            commit_timestamp=self.commit_timestamp_ms,
            expire_timestamp=self.expire_timestamp_ms,
            topic_id=self.topic_id,
        )


def committed_of_record(value: OffsetCommitValue) -> Committed:
    return Committed(
        offset=value.offset,
        leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        commit_timestamp_ms=value.commit_timestamp,
        expire_timestamp_ms=value.expire_timestamp,
        topic_id=bytes(value.topic_id),
    )


class CommittedOffsets:
    """What the log says. A record's turn in the log decides which of two commits is the later."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, dict[int, Committed]]] = {}
        self._turn = 0
        self._open: dict[int, dict[Place, tuple[int, Committed | None]]] = {}
        """By producer: the turn and the offset that count once its transaction commits."""
        self._overtaken: dict[Place, int] = {}
        """The turn of a plain commit to a place that some open transaction has written before."""

    def replay(self, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
        self._turn += 1
        place = (key.group, key.topic, key.partition)
        if self.is_pending(*place):
            self._overtaken[place] = self._turn
        self._put(place, None if value is None else committed_of_record(value))

    def replay_of_transaction(
        self, producer_id: int, key: OffsetCommitKey, value: OffsetCommitValue | None
    ) -> None:
        self._turn += 1
        committed = None if value is None else committed_of_record(value)
        place = (key.group, key.topic, key.partition)
        self._open.setdefault(producer_id, {})[place] = (self._turn, committed)

    def transaction_ended(self, producer_id: int, *, committed: bool) -> None:
        places = self._open.pop(producer_id, {})
        for place, (turn, offset) in places.items():
            if committed and turn > self._overtaken.get(place, 0):
                self._put(place, offset)
                self._overtaken[place] = turn
            if not self.is_pending(*place):
                self._overtaken.pop(place, None)

    def _put(self, place: Place, committed: Committed | None) -> None:
        group_id, topic, partition = place
        if committed is not None:
            topics = self._groups.setdefault(group_id, {})
            topics.setdefault(topic, {})[partition] = committed
            return
        topics = self._groups.get(group_id, {})
        partitions = topics.get(topic, {})
        partitions.pop(partition, None)
        if not partitions:
            topics.pop(topic, None)
        if not topics:
            self._groups.pop(group_id, None)

    # --- reading

    def of_group(self, group_id: str) -> Mapping[str, Mapping[int, Committed]]:
        return self._groups.get(group_id, {})

    def of_partition(self, group_id: str, topic: str, partition: int) -> Committed | None:
        return self.of_group(group_id).get(topic, {}).get(partition)

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """An open transaction has written here: what counts is about to change."""
        if not self._open:
            return False
        place = (group_id, topic, partition)
        return any(place in places for places in self._open.values())

    def pending_places(self, group_id: str) -> set[tuple[str, int]]:
        return {
            (topic, partition)
            for places in self._open.values()
            for group, topic, partition in places
            if group == group_id
        }

    def places_of_topics(self, names: frozenset[str]) -> Iterator[Place]:
        for group_id, topics in self._groups.items():
            for topic in topics.keys() & names:
                for partition in topics[topic]:
                    yield group_id, topic, partition
