"""Replays OffsetCommit: accepts any offset up to the recorded one, as commits depend on time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pykbroker_protocol.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pykbroker.testing.replaying.fetch_replay import FetchReplay
    from pykbroker.testing.replaying.recorded_exchanges import Recorded
    from pykbroker.testing.replaying.topic_names import TopicNames


class OffsetCommits:
    """The highest recorded commit of each group and partition."""

    def __init__(self, names: TopicNames, fetched: FetchReplay) -> None:
        self._names = names
        self._fetched = fetched
        self._reached: dict[tuple[str, str, int], int] = {}

    def add(self, recorded: Recorded) -> None:
        for key, offset in self._offsets(recorded.request):
            self._reached[key] = max(offset, self._reached.get(key, -1))

    def answer(self, request: Any) -> OffsetCommitResponse | None:
        """Returns None if an offset is too high or the group has no recorded commit there."""
        if not all(self._is_reached(key, offset) for key, offset in self._offsets(request)):
            return None
        return OffsetCommitResponse(
            topics=[
                OffsetCommitResponseTopic(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partitions=[
                        OffsetCommitResponsePartition(
                            partition_index=it.partition_index, error_code=0
                        )
                        for it in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def _is_reached(self, key: tuple[str, str, int], offset: int) -> bool:
        _, topic, partition = key
        read_up_to = self._fetched.end_of((topic, partition))
        return key in self._reached and offset <= max(self._reached[key], read_up_to)

    def _offsets(self, request: Any) -> Iterator[tuple[tuple[str, str, int], int]]:
        for topic in request.topics:
            name = self._names.of(topic.name, topic.topic_id)
            for it in topic.partitions:
                yield (request.group_id, name, it.partition_index), it.committed_offset
