"""The partitions of a coordinator's topic that this node leads, each with the state in it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic

from pykbroker.coordinators.coordinated_log import AnyState, CoordinatedLog, Status
from pykbroker.internal_topics import partition_of_name
from pykbroker_protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pykbroker.partitions.partition import Partition
    from pykbroker.partitions.partition_registry import Partitions


class CoordinatedTopic(Generic[AnyState]):
    """Loads the partitions that this node leads, and finds the partition of an id."""

    def __init__(
        self,
        topic: str,
        partitions: Partitions,
        new_log: Callable[[Partition], CoordinatedLog[AnyState]],
    ) -> None:
        self.topic = topic
        self._partitions = partitions
        self._new_log = new_log
        self._logs: dict[int, CoordinatedLog[AnyState]] = {}
        self._partition_count = 0
        self._loading: set[asyncio.Task[None]] = set()

    def update_partitions(self, partition_count: int) -> None:
        """Loads the partitions that this node now leads, and resigns from the others."""
        self._partition_count = partition_count
        for index in [it for it in self._logs if it >= partition_count]:
            self._logs.pop(index).resign()
        for index in range(partition_count):
            partition = self._partitions.get(self.topic, index)
            known = self._logs.get(index)
            if known is not None and not (known.partition is partition and known.still_leads):
                self._logs.pop(index).resign()
                known = None
            if known is None and partition is not None and partition.leads:
                self._begin_loading(index, partition)

    def _begin_loading(self, index: int, partition: Partition) -> None:
        log = self._logs[index] = self._new_log(partition)
        if log.is_empty:
            log.begin()
            return
        loading = asyncio.create_task(log.load())
        self._loading.add(loading)
        loading.add_done_callback(self._loading.discard)

    async def wait_until_loaded(self, seconds_max: float | None) -> None:
        """Waits for loading partitions, at most `seconds_max` of real time (for test brokers)."""
        if self._loading:
            await asyncio.wait(self._loading, timeout=seconds_max)

    async def close(self) -> None:
        for task in self._loading:
            task.cancel()
        await asyncio.gather(*self._loading, return_exceptions=True)
        for log in self._logs.values():
            log.resign()

    def find(self, name: str) -> CoordinatedLog[AnyState] | ErrorCode:
        """Returns the log of a name, or the error if it is not coordinated or not loaded here."""
        if not self._partition_count:
            return ErrorCode.NOT_COORDINATOR
        return self.at(partition_of_name(name, self._partition_count))

    def at(self, index: int) -> CoordinatedLog[AnyState] | ErrorCode:
        log = self._logs.get(index)
        if log is None:
            return ErrorCode.NOT_COORDINATOR
        return log.refusal() or log

    def __iter__(self) -> Iterator[CoordinatedLog[AnyState]]:
        return iter(self._logs.values())

    def active(self) -> Iterator[CoordinatedLog[AnyState]]:
        return (log for log in self._logs.values() if log.status is Status.ACTIVE)

    @property
    def is_whole(self) -> bool:
        """True if this node coordinates all partitions of the topic and has loaded them."""
        return len(list(self.active())) == self._partition_count > 0

    @property
    def is_loading(self) -> bool:
        return any(log.status is Status.LOADING for log in self._logs.values())
