"""The location dashboard: a consumer group that shows the fleet live on a web page."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener

from .fleet_state import FleetState
from .reports import TRUCKS
from .topics import ALERTS, NOTIFICATIONS, STATISTICS
from .web import served

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable

    from aiokafka import TopicPartition

GROUP = "location-dashboard"
TOPICS = [TRUCKS, STATISTICS, ALERTS, NOTIFICATIONS]
LOOK_BACK_RECORDS = 2000
"""Number of records per partition that are read after an assignment."""
POLL_MS = 200

log = logging.getLogger("dashboard")


async def run(
    bootstrap: str, stopped: asyncio.Event, *, port: int = 0, ready: Callable[[str], None] = print
) -> None:
    """Shows the fleet until `stopped` is set; calls `ready` with the URL of the page."""
    state = FleetState()
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        client_id=GROUP,
        group_id=GROUP,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    )
    consumer.subscribe(TOPICS, listener=RewindOnAssignment(consumer, state))
    async with served(state, port) as url, consumer:
        ready(url)
        while not stopped.is_set():
            await apply_records(consumer, state)


async def apply_records(consumer: AIOKafkaConsumer, state: FleetState) -> None:
    for partition, records in (await consumer.getmany(timeout_ms=POLL_MS)).items():
        for record in records:
            state.apply(partition.topic, partition.partition, record.value)


class RewindOnAssignment(ConsumerRebalanceListener):  # type: ignore[misc]  # the library is untyped
    """Rewinds assigned partitions, because the state is only in memory."""

    def __init__(self, consumer: AIOKafkaConsumer, state: FleetState) -> None:
        self._consumer = consumer
        self._state = state

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self._state.remove_partitions({it.partition for it in revoked if it.topic == TRUCKS})

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        partitions = list(assigned)
        if not partitions:
            return
        first = await self._consumer.beginning_offsets(partitions)
        for partition, end in (await self._consumer.end_offsets(partitions)).items():
            self._consumer.seek(partition, max(first[partition], end - LOOK_BACK_RECORDS))
        log.info("partitions assigned: %d", len(partitions))
