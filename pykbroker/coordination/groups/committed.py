"""How far groups have read: the offsets that count, and those of transactions still open."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pykbroker_protocol.internal_topics.offsets import OffsetCommitValue

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from pykbroker_protocol.internal_topics.offsets import OffsetCommitKey

NO_OFFSET = -1
NO_LEADER_EPOCH = -1
NEVER = -1
LATEST_MS = (1 << 63) - 1
"""Greatest time that a record can hold."""

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
        self._open: dict[int, dict[Place, tuple[int, Committed]]] = {}
        """By producer: the turn and the offset that count once its transaction commits."""
        self._pending: dict[str, dict[tuple[str, int], set[int]]] = {}
        """By group, topic and partition: the producers whose open transactions have written."""
        self._overtaken: dict[Place, int] = {}
        """The turn of a commit that counts, to a place that some open transaction had written."""

    def replay(self, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
        self._turn += 1
        place = (key.group, key.topic, key.partition)
        if value is None:
            self._forget(place)
            return
        if self.is_pending(*place):
            self._overtaken[place] = self._turn
        self._put(place, committed_of_record(value))

    def replay_of_transaction(
        self, producer_id: int, key: OffsetCommitKey, value: OffsetCommitValue
    ) -> None:
        self._turn += 1
        place = (key.group, key.topic, key.partition)
        self._open.setdefault(producer_id, {})[place] = (self._turn, committed_of_record(value))
        of_group = self._pending.setdefault(key.group, {})
        of_group.setdefault((key.topic, key.partition), set()).add(producer_id)

    def transaction_ended(self, producer_id: int, *, committed: bool) -> None:
        for place, (turn, offset) in self._open.pop(producer_id, {}).items():
            if committed and turn > self._overtaken.get(place, 0):
                self._put(place, offset)
                self._overtaken[place] = turn
            self._no_longer_pending(place, producer_id)

    def _no_longer_pending(self, place: Place, producer_id: int) -> None:
        group_id, topic, partition = place
        of_group = self._pending[group_id]
        producers = of_group[topic, partition]
        producers.discard(producer_id)
        if producers:
            return
        self._overtaken.pop(place, None)
        del of_group[topic, partition]
        if not of_group:
            del self._pending[group_id]

    def _forget(self, place: Place) -> None:
        """A tombstone takes along what open transactions have written before."""
        group_id, topic, partition = place
        for producer_id in tuple(self._pending.get(group_id, {}).get((topic, partition), ())):
            del self._open[producer_id][place]
            self._no_longer_pending(place, producer_id)
        topics = self._groups.get(group_id, {})
        partitions = topics.get(topic, {})
        partitions.pop(partition, None)
        if not partitions:
            topics.pop(topic, None)
        if not topics:
            self._groups.pop(group_id, None)

    def _put(self, place: Place, committed: Committed) -> None:
        group_id, topic, partition = place
        self._groups.setdefault(group_id, {}).setdefault(topic, {})[partition] = committed

    # --- reading

    def of_group(self, group_id: str) -> Mapping[str, Mapping[int, Committed]]:
        return self._groups.get(group_id, {})

    def of_partition(self, group_id: str, topic: str, partition: int) -> Committed | None:
        return self.of_group(group_id).get(topic, {}).get(partition)

    def has(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether there is an offset, or would be one if some transaction commits."""
        is_committed = self.of_partition(group_id, topic, partition) is not None
        return is_committed or self.is_pending(group_id, topic, partition)

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """An open transaction has written here: what counts is about to change."""
        return (topic, partition) in self.pending_places(group_id)

    def pending_places(self, group_id: str) -> Collection[tuple[str, int]]:
        return self._pending.get(group_id, {}).keys()

    def places_of_topics(self, names: frozenset[str]) -> Iterator[Place]:
        """Where offsets of these topics are, and where open transactions have put some."""
        for group_id, topics in self._groups.items():
            for topic in topics.keys() & names:
                for partition in topics[topic]:
                    yield group_id, topic, partition
        for group_id, places in self._pending.items():
            for topic, partition in places:
                if topic in names and self.of_partition(group_id, topic, partition) is None:
                    yield group_id, topic, partition
