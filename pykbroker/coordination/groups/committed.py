"""Committed offsets, and pending offsets of open transactions."""

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
"""Highest timestamp that a record can contain."""

OffsetKey = tuple[str, str, int]
"""Group id, topic and partition."""


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
    """Offsets as replayed. The position in the log decides which of two commits is later."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, dict[int, Committed]]] = {}
        self._position = 0
        self._open: dict[int, dict[OffsetKey, tuple[int, Committed]]] = {}
        """By producer id: offsets that apply when its transaction commits, with their position."""
        self._pending: dict[str, dict[tuple[str, int], set[int]]] = {}
        """By group, topic and partition: producers with a pending offset."""
        self._committed_positions: dict[OffsetKey, int] = {}
        """Position of the last commit to a key with pending offsets."""

    def replay(self, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
        self._position += 1
        offset_key = (key.group, key.topic, key.partition)
        if value is None:
            self._delete(offset_key)
            return
        if self.is_pending(*offset_key):
            self._committed_positions[offset_key] = self._position
        self._put(offset_key, committed_of_record(value))

    def replay_of_transaction(
        self, producer_id: int, key: OffsetCommitKey, value: OffsetCommitValue
    ) -> None:
        self._position += 1
        offset_key = (key.group, key.topic, key.partition)
        self._open.setdefault(producer_id, {})[offset_key] = (
            self._position,
            committed_of_record(value),
        )
        of_group = self._pending.setdefault(key.group, {})
        of_group.setdefault((key.topic, key.partition), set()).add(producer_id)

    def transaction_ended(self, producer_id: int, *, committed: bool) -> None:
        for offset_key, (position, offset) in self._open.pop(producer_id, {}).items():
            if committed and position > self._committed_positions.get(offset_key, 0):
                self._put(offset_key, offset)
                self._committed_positions[offset_key] = position
            self._no_longer_pending(offset_key, producer_id)

    def _no_longer_pending(self, offset_key: OffsetKey, producer_id: int) -> None:
        group_id, topic, partition = offset_key
        of_group = self._pending[group_id]
        producers = of_group[topic, partition]
        producers.discard(producer_id)
        if producers:
            return
        self._committed_positions.pop(offset_key, None)
        del of_group[topic, partition]
        if not of_group:
            del self._pending[group_id]

    def _delete(self, offset_key: OffsetKey) -> None:
        """Applies a tombstone, which also removes pending offsets before it."""
        group_id, topic, partition = offset_key
        for producer_id in tuple(self._pending.get(group_id, {}).get((topic, partition), ())):
            del self._open[producer_id][offset_key]
            self._no_longer_pending(offset_key, producer_id)
        topics = self._groups.get(group_id, {})
        partitions = topics.get(topic, {})
        partitions.pop(partition, None)
        if not partitions:
            topics.pop(topic, None)
        if not topics:
            self._groups.pop(group_id, None)

    def _put(self, offset_key: OffsetKey, committed: Committed) -> None:
        group_id, topic, partition = offset_key
        self._groups.setdefault(group_id, {}).setdefault(topic, {})[partition] = committed

    # --- queries

    def of_group(self, group_id: str) -> Mapping[str, Mapping[int, Committed]]:
        return self._groups.get(group_id, {})

    def of_partition(self, group_id: str, topic: str, partition: int) -> Committed | None:
        return self.of_group(group_id).get(topic, {}).get(partition)

    def has(self, group_id: str, topic: str, partition: int) -> bool:
        """Returns whether there is a committed or pending offset."""
        is_committed = self.of_partition(group_id, topic, partition) is not None
        return is_committed or self.is_pending(group_id, topic, partition)

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Returns whether an open transaction has a pending offset here."""
        return (topic, partition) in self.pending_keys(group_id)

    def pending_keys(self, group_id: str) -> Collection[tuple[str, int]]:
        return self._pending.get(group_id, {}).keys()

    def keys_of_topics(self, names: frozenset[str]) -> Iterator[OffsetKey]:
        """Returns keys of these topics with committed or pending offsets."""
        for group_id, topics in self._groups.items():
            for topic in topics.keys() & names:
                for partition in topics[topic]:
                    yield group_id, topic, partition
        for group_id, keys in self._pending.items():
            for topic, partition in keys:
                if topic in names and self.of_partition(group_id, topic, partition) is None:
                    yield group_id, topic, partition
