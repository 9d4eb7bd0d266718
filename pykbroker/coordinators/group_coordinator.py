"""The groups that this node coordinates: those whose partition of `__consumer_offsets` it leads."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pykbroker.coordination.groups.registry import Groups
from pykbroker.coordinators.coordinated_log import CoordinatedLog, Status
from pykbroker.coordinators.records import GROUP_RECORDS
from pykbroker.internal_topics import CONSUMER_OFFSETS, partition_of_name
from pykbroker_protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pykbroker.clock import Clock
    from pykbroker.coordination.groups.consumer_settings import ConsumerGroupSettings
    from pykbroker.coordination.groups.settings import GroupSettings
    from pykbroker.coordination.outcome import Outcome, Ticket
    from pykbroker.coordinators.topics_of_cluster import TopicsOfCluster
    from pykbroker.partitions.board import Partitions
    from pykbroker.partitions.partition import Partition
    from pykbroker_protocol.message import Message

    GroupLog = CoordinatedLog[Groups]
    Decision = Callable[[Groups, Ticket], Outcome]


class GroupCoordinator:
    """Finds the state that a group lives in, and keeps one for each partition led here."""

    def __init__(
        self,
        partitions: Partitions,
        clock: Clock,
        topics: TopicsOfCluster,
        *,
        settings: GroupSettings,
        consumer_settings: ConsumerGroupSettings,
    ) -> None:
        self.settings = settings
        self.consumer_settings = consumer_settings
        self.topics = topics
        self._partitions = partitions
        self._clock = clock
        self._logs: dict[int, GroupLog] = {}
        self._partition_count = 0
        self._loading: set[asyncio.Task[None]] = set()

    # --- following who leads what

    def follow(self, partition_count: int) -> None:
        """Take up the partitions that this node has come to lead, give up the others."""
        self._partition_count = partition_count
        for index in range(partition_count):
            partition = self._partitions.get(CONSUMER_OFFSETS, index)
            known = self._logs.get(index)
            if known is not None and (known.partition is not partition or not partition.leads):
                self._logs.pop(index).give_up()
                known = None
            if known is None and partition is not None and partition.leads:
                self._take_up(index, partition)
        for index in [it for it in self._logs if it >= partition_count]:
            self._logs.pop(index).give_up()

    def _take_up(self, index: int, partition: Partition) -> None:
        state = Groups(self.settings, self.consumer_settings, self.topics)
        log = CoordinatedLog(partition, state, GROUP_RECORDS, self._clock)
        self._logs[index] = log
        if log.is_empty:
            log.begin()
            return
        loading = asyncio.create_task(log.load())
        self._loading.add(loading)
        loading.add_done_callback(self._loading.discard)

    def configure(self, settings: GroupSettings, consumer: ConsumerGroupSettings) -> None:
        """Properties that may change while the broker runs have changed."""
        self.settings, self.consumer_settings = settings, consumer
        for log in self._logs.values():
            log.state.configure(settings, consumer)

    def topics_deleted(self, names: Sequence[str]) -> None:
        """What groups have committed for topics that are gone is forgotten."""
        for log in self.active():
            log.carry_out(log.state.topics_deleted(names, self._clock.now_ms()))

    async def close(self) -> None:
        for task in self._loading:
            task.cancel()
        await asyncio.gather(*self._loading, return_exceptions=True)
        for log in self._logs.values():
            log.give_up()

    # --- serving

    def decide(
        self, group_id: str, decision: Decision, refused: Callable[[ErrorCode], Message]
    ) -> Message | asyncio.Future[Message]:
        """The answer to a request about a group, now or later."""
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

    def find(self, group_id: str) -> GroupLog | ErrorCode:
        """Where a group lives, if that is here and loaded."""
        if not self._partition_count:
            return ErrorCode.NOT_COORDINATOR
        log = self._logs.get(partition_of_name(group_id, self._partition_count))
        if log is None:
            return ErrorCode.NOT_COORDINATOR
        return log.refusal() or log

    def active(self) -> Iterator[GroupLog]:
        return (log for log in self._logs.values() if log.status is Status.ACTIVE)

    @property
    def is_loading(self) -> bool:
        return any(log.status is Status.LOADING for log in self._logs.values())
