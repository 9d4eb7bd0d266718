"""The partitions of a node with real files, and a transaction coordinator."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pykbroker.clock import SystemClock
from pykbroker.coordination.transactions.end_txn import refused as refused_end
from pykbroker.coordination.transactions.settings import TransactionSettings
from pykbroker.coordinators.transaction_coordinator import TransactionCoordinator
from pykbroker.coordinators.transaction_markers import MarkerWriter
from pykbroker.generation import Generation
from pykbroker.internal_topics import TRANSACTION_STATE
from pykbroker.metadata.image import ClusterImage, PartitionImage, TopicImage
from pykbroker.partitions.partition_registry import Partitions, log_configuration
from pykbroker.settings import load_settings
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.end_txn import EndTxnRequest
from pykbroker_protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from pykbroker_storage.filesystem import LOCAL_DISK
from pykbroker_storage.log_directory import LogDirectory

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable
    from pathlib import Path

    from pykbroker.coordination.transactions.outcome import TopicPartition
    from pykbroker_protocol.message import Message
    from pykbroker_storage.filesystem import FileSystem

HERE, ELSEWHERE = 1, 2
NAME, TOPIC = "depot-1", "trucks"
TIMEOUT_SECONDS = 5.0


class Groups:
    """A group coordinator that records the results of transactions."""

    def __init__(self) -> None:
        self.results: list[tuple[int, int, bool]] = []

    def transaction_ended(self, partition_index: int, producer_id: int, *, committed: bool) -> None:
        self.results.append((partition_index, producer_id, committed))


class TransactionNode:
    """One node, and the requests of a producer to its coordinator."""

    def __init__(self, directory: LogDirectory, settings: TransactionSettings) -> None:
        self.settings = settings
        self.clock = SystemClock()
        self.image = ClusterImage(cluster_id="c", controller_id=HERE)
        self.partitions = Partitions(
            node_id=HERE,
            directory=directory,
            settings=load_settings(),
            clock=self.clock,
            generation=Generation(),
        )
        self.groups = Groups()
        self.producer_id, self.producer_epoch = -1, -1
        self.coordinator = self.new_coordinator()

    def new_coordinator(self) -> TransactionCoordinator:
        writer = MarkerWriter(self.partitions, self.groups, lambda: self.image, self.clock)
        return TransactionCoordinator(self.partitions, self.clock, writer, settings=self.settings)

    # --- the cluster

    def topic(self, name: str, count: int = 1, **leadership: Any) -> None:
        partitions = tuple(
            PartitionImage(
                **{
                    "index": index,
                    "replicas": (HERE,),
                    "in_sync": (HERE,),
                    "leader": HERE,
                    "leader_epoch": 0,
                    "partition_epoch": 0,
                    "directories": (),
                    **leadership,
                }
            )
            for index in range(count)
        )
        topic_id = name.encode().ljust(16)[:16]
        topic = TopicImage(name=name, id=topic_id, partitions=partitions)
        self.image.topics[name] = topic
        self.partitions.apply_metadata(self.image, [topic])
        self.update_partitions()

    def lead(self, name: str, index: int, **changed: Any) -> None:
        partitions = list(self.image.topics[name].partitions)
        partitions[index] = replace(partitions[index], **changed)
        topic = replace(self.image.topics[name], partitions=tuple(partitions))
        self.image.topics[name] = topic
        self.partitions.apply_metadata(self.image, [topic])
        self.update_partitions()

    def delete(self, name: str) -> None:
        self.partitions.drop(self.image.topics.pop(name))
        self.update_partitions()

    def update_partitions(self) -> None:
        count = self.image.partition_count(TRANSACTION_STATE)
        self.coordinator.update_partitions(count, transaction_version=2)

    async def crash(self) -> None:
        """Discards the state; a new coordinator loads it from the logs."""
        await self.coordinator.close()
        self.coordinator = self.new_coordinator()
        self.update_partitions()
        await self.until(lambda: not self.coordinator.is_loading)

    async def until(self, is_so: Any) -> None:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while not is_so():  # noqa: ASYNC110  # no event reports it
                await asyncio.sleep(0.001)

    # --- the producer

    async def enter(self, *, timeout_ms: int = 60_000) -> None:
        request = InitProducerIdRequest(transactional_id=NAME, transaction_timeout_ms=timeout_ms)
        answer = await self.answer(
            self.coordinator.decide(
                NAME,
                lambda transactions, ticket: transactions.init_producer_id(
                    request, version=5, ticket=ticket, new_producer_id=7, now_ms=self.now_ms
                ),
                lambda code: InitProducerIdResponse(error_code=code, producer_epoch=-1),
            )
        )
        self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch

    async def join(self, *places: TopicPartition, verify_only: bool = False) -> set[ErrorCode]:
        outcome = self.coordinator.join(
            NAME, self.producer_id, self.producer_epoch, places, verify_only=verify_only
        )
        return set((await outcome if isinstance(outcome, asyncio.Future) else outcome).values())

    async def end(self, *, committed: bool = True, version: int = 4) -> Any:
        return await self.answer(self.ending(committed=committed, version=version))

    def ending(self, *, committed: bool = True, version: int = 4) -> Message | asyncio.Future[Any]:
        request = EndTxnRequest(
            transactional_id=NAME,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            committed=committed,
        )
        return self.coordinator.decide(
            NAME,
            lambda transactions, ticket: transactions.end_txn(
                request, version=version, ticket=ticket, new_producer_id=None, now_ms=self.now_ms
            ),
            refused_end,
        )

    @staticmethod
    async def answer(outcome: Message | asyncio.Future[Any]) -> Any:
        return await outcome if isinstance(outcome, asyncio.Future) else outcome

    # --- state

    @property
    def now_ms(self) -> int:
        return self.clock.now_ms()

    @property
    def state(self) -> str:
        log = self.coordinator.find(NAME)
        assert not isinstance(log, ErrorCode), log
        (described,) = log.state.describe_transactions([NAME])
        return described.transaction_state

    def markers_in(self, places: Iterable[TopicPartition]) -> list[int]:
        """The number of records in each partition; these tests append only markers."""
        found = [self.partitions.get(*place) for place in places]
        return [-1 if it is None else it.log.log_end_offset for it in found]


@asynccontextmanager
async def transaction_node(
    folder: Path,
    settings: TransactionSettings | None = None,
    disk: FileSystem = LOCAL_DISK,
) -> AsyncIterator[TransactionNode]:
    """A node that leads one partition of `__transaction_state`."""
    clock = SystemClock()
    directory = LogDirectory.open(
        str(folder),
        cluster_id="c",
        node_id=HERE,
        new_directory_id=bytes(16),
        configuration=log_configuration(load_settings().topic_defaults),
        filesystem=disk,
    )
    staged = TransactionNode(directory, settings or TransactionSettings())
    try:
        staged.topic(TRANSACTION_STATE)
        yield staged
    finally:
        await staged.coordinator.close()
        directory.close({}, now_ms=clock.now_ms(), broker_epoch=-1)
