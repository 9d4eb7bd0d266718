"""The coordinator of groups whose partition of `__consumer_offsets` this node leads."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from pykbroker.coordinators.coordinated_topic import CoordinatedTopic
from pykbroker.coordinators.turns import Turns
from pykbroker.internal_topics import CONSUMER_OFFSETS
from pykbroker_protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pykbroker.clock import Clock
    from pykbroker.coordination.groups.consumer_settings import ConsumerGroupSettings
    from pykbroker.coordination.groups.member_bytes import MemberBytes
    from pykbroker.coordination.groups.registry import Groups
    from pykbroker.coordination.groups.settings import GroupSettings
    from pykbroker.coordination.outcome import Outcome, Ticket
    from pykbroker.coordinators.coordinated_log import CoordinatedLog, DecisionObserver
    from pykbroker.coordinators.group_log import GroupLog
    from pykbroker.coordinators.topics_of_cluster import TopicsOfCluster
    from pykbroker.partitions.partition import Partition
    from pykbroker.partitions.partition_registry import Partitions
    from pykbroker_protocol.message import Message

    Decision = Callable[[Groups, Ticket], Outcome]


class GroupCoordinator:
    """Finds the state of a group; there is one state for each partition that this node leads."""

    def __init__(
        self,
        partitions: Partitions,
        clock: Clock,
        topics: TopicsOfCluster,
        *,
        settings: GroupSettings,
        consumer_settings: ConsumerGroupSettings,
        observer: DecisionObserver | None = None,
    ) -> None:
        self.settings = settings
        self.consumer_settings = consumer_settings
        self.topics = topics
        self._clock = clock
        self._generation = partitions.generation
        self._turns = Turns()
        self._member_bytes: MemberBytes | None = None
        self._topic = CoordinatedTopic(CONSUMER_OFFSETS, partitions, self._new_log)
        self._observer = observer

    # --- leadership and settings

    def update_partitions(self, partition_count: int) -> None:
        """Loads the partitions that this node now leads, and resigns from the others."""
        self._topic.update_partitions(partition_count)

    def _new_log(self, partition: Partition) -> GroupLog:
        """Imports the code of groups with the first partition, to keep the start short."""
        from pykbroker.coordination.groups.member_bytes import (  # noqa: PLC0415  # see above
            MemberBytes,
        )
        from pykbroker.coordinators.group_log import new_group_log  # noqa: PLC0415  # see above

        if self._member_bytes is None:
            self._member_bytes = MemberBytes()
        return new_group_log(
            partition,
            self._clock,
            self.topics,
            self._turns,
            self._member_bytes,
            settings=self.settings,
            consumer_settings=self.consumer_settings,
            observer=self._observer,
        )

    def configure(self, settings: GroupSettings, consumer: ConsumerGroupSettings) -> None:
        """Applies changed settings."""
        self.settings, self.consumer_settings = settings, consumer
        self._generation.advance()
        for log in self._topic:
            log.state.configure(settings, consumer)

    def topics_deleted(self, names: Sequence[str]) -> None:
        """Deletes the committed offsets of deleted topics."""
        now_ms = self._clock.now_ms()
        for log in self._topic:
            log.decide_once_loaded(partial(log.state.topics_deleted, names, now_ms))

    def transaction_ended(self, partition_index: int, producer_id: int, *, committed: bool) -> None:
        """Applies a marker that was appended; a log that is loading replays it itself."""
        log = self._topic.at(partition_index)
        if not isinstance(log, ErrorCode):
            log.state.transaction_ended(producer_id, committed=committed)

    async def close(self) -> None:
        await self._topic.close()

    # --- serving

    def decide(
        self, group_id: str, decision: Decision, refused: Callable[[ErrorCode], Message]
    ) -> Message | asyncio.Future[Message]:
        """Returns the response to a request about a group, or a future of it."""
        log = self.find(group_id)
        if isinstance(log, ErrorCode):
            return refused(log)
        state = log.state
        return log.decide(lambda ticket: decision(state, ticket), refused)

    async def decide_and_wait(
        self, group_id: str, decision: Decision, refused: Callable[[ErrorCode], Message]
    ) -> Message:
        answer = self.decide(group_id, decision, refused)
        return await answer if isinstance(answer, asyncio.Future) else answer

    def find(self, group_id: str) -> CoordinatedLog[Groups] | ErrorCode:
        """Returns the log of a group, or the error if it is not coordinated or not loaded here."""
        return self._topic.find(group_id)

    def active(self) -> Iterator[CoordinatedLog[Groups]]:
        return self._topic.active()

    async def wait_until_loaded(self, seconds_max: float) -> None:
        await self._topic.wait_until_loaded(seconds_max)

    @property
    def is_loading(self) -> bool:
        return self._topic.is_loading
