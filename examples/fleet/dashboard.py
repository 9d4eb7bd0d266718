"""The location dashboard: a consumer group that keeps a live state of the fleet on a web page."""

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
"""So many of each partition are read again at the start, and make the first state."""
POLL_MS = 200

log = logging.getLogger("dashboard")


async def run(
    bootstrap: str, stopped: asyncio.Event, *, port: int = 0, ready: Callable[[str], None] = print
) -> None:
    """Shows the fleet until it is told to stop; `ready` hears the page's address."""
    state = FleetState()
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        client_id=GROUP,
        group_id=GROUP,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    )
    consumer.subscribe(TOPICS, listener=LookBack(consumer, state))
    async with served(state, port) as url, consumer:
        ready(url)
        while not stopped.is_set():
            await follow(consumer, state)


async def follow(consumer: AIOKafkaConsumer, state: FleetState) -> None:
    for place, records in (await consumer.getmany(timeout_ms=POLL_MS)).items():
        for record in records:
            state.take(place.topic, place.partition, record.value)


class LookBack(ConsumerRebalanceListener):  # type: ignore[misc]  # the library is untyped
    """A state is in memory: whoever gets a partition reads the last of it once more."""

    def __init__(self, consumer: AIOKafkaConsumer, state: FleetState) -> None:
        self._consumer = consumer
        self._state = state

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self._state.forget({it.partition for it in revoked if it.topic == TRUCKS})

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        places = list(assigned)
        if not places:
            return
        first = await self._consumer.beginning_offsets(places)
        for place, end in (await self._consumer.end_offsets(places)).items():
            self._consumer.seek(place, max(first[place], end - LOOK_BACK_RECORDS))
        log.info("shows %d partitions", len(places))
