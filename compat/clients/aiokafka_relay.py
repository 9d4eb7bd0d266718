"""A relay with aiokafka, which does not support consumer generations in transactions (KIP-447).

For exactly-once its partitions are therefore fixed; its transactional id fences the previous relay.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from aiokafka import (
    AIOKafkaConsumer,
    AIOKafkaProducer,
    ConsumerRebalanceListener,
    TopicPartition,
)
from aiokafka.errors import KafkaError

from compat.clients import relay_program
from compat.clients.relay_program import (
    POLL_SECONDS,
    RECORDS_PER_POLL_MAX,
    Guarantee,
    Positions,
    RelayOptions,
    Results,
)
from pykbroker.testing.history import Client, Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class AiokafkaLibrary:
    """The relay is synchronous, so each call runs the event loop until it completes."""

    error = KafkaError

    def __init__(self, options: RelayOptions) -> None:
        assert options.partitions is not None or not options.is_transactional
        self.options = options
        self.loop = asyncio.Runner()
        self.producer: Any = None
        self.consumer: Any = None

    def open(self, client: Client) -> None:
        self.loop.run(self._open(client))

    async def _open(self, client: Client) -> None:
        """Initializes transactions first, because this completes pending offset commits."""
        self.producer = AIOKafkaProducer(**producer_settings(self.options))
        await self.producer.start()
        self.consumer = AIOKafkaConsumer(
            bootstrap_servers=self.options.bootstrap,
            client_id=self.options.name,
            group_id=self.options.group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            session_timeout_ms=self.options.session_timeout_ms,
            heartbeat_interval_ms=self.options.session_timeout_ms // 6,
            fetch_max_wait_ms=50,
        )
        await self.consumer.start()
        if self.options.partitions is None:
            self.consumer.subscribe([self.options.source], listener=Listener(client))
            return
        own = [TopicPartition(self.options.source, it) for it in self.options.partitions]
        self.consumer.assign(own)
        client.assigned(*own)

    def poll(self) -> list[Record]:
        return self.loop.run(self._poll())

    async def _poll(self) -> list[Record]:
        found = await self.consumer.getmany(
            timeout_ms=int(POLL_SECONDS * 1000), max_records=RECORDS_PER_POLL_MAX
        )
        return [record_of(it) for records in found.values() for it in records]

    def seek(self, positions: Positions) -> Positions:
        for place, offset in positions.items():
            self.consumer.seek(TopicPartition(*place), offset)
        return positions

    def begin(self) -> None:
        self.loop.run(self.producer.begin_transaction())

    def send(self, records: Sequence[tuple[int, str]]) -> Results:
        return self.loop.run(self._send(records))

    async def _send(self, records: Sequence[tuple[int, str]]) -> Results:
        under_way = [
            await self.producer.send(self.options.sink, value.encode(), partition=partition)
            for partition, value in records
        ]
        found = await asyncio.gather(*under_way, return_exceptions=True)
        return [result_of(it) for it in found]

    def send_offsets(self, positions: Positions) -> None:
        offsets = offsets_of(positions)
        self.loop.run(self.producer.send_offsets_to_transaction(offsets, self.options.group))

    def commit(self) -> None:
        self.loop.run(self.producer.commit_transaction())

    def abort(self) -> None:
        self.loop.run(self.producer.abort_transaction())

    def commit_offsets(self, positions: Positions) -> None:
        self.loop.run(self.consumer.commit(offsets_of(positions)))

    def close(self) -> None:
        self.loop.run(self.consumer.stop())
        self.loop.run(self.producer.stop())
        self.loop.close()


class Listener(ConsumerRebalanceListener):  # type: ignore[misc] # aiokafka is untyped
    def __init__(self, client: Client) -> None:
        self.client = client

    async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        self.client.assigned(*((it.topic, it.partition) for it in assigned))

    async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        self.client.revoked(*((it.topic, it.partition) for it in revoked))


def producer_settings(options: RelayOptions) -> dict[str, object]:
    settings: dict[str, object] = {
        "bootstrap_servers": options.bootstrap,
        "client_id": options.name,
    }
    match options.guarantee:
        case Guarantee.AT_MOST_ONCE:
            return {**settings, "acks": 0}  # with acks it would retry
        case Guarantee.AT_LEAST_ONCE:
            return {**settings, "acks": "all"}
        case Guarantee.EXACTLY_ONCE:
            return {
                **settings,
                "transactional_id": options.transactional_id,
                "transaction_timeout_ms": options.transaction_timeout_ms,
            }


def offsets_of(positions: Positions) -> dict[Any, int]:
    return {TopicPartition(*place): offset for place, offset in positions.items()}


def record_of(found: Any) -> Record:
    return Record(found.topic, found.partition, found.offset, found.value.decode())


def result_of(found: Any) -> int | Exception:
    if isinstance(found, Exception):
        return found
    if isinstance(found, BaseException):
        raise found
    if found is None:
        return TimeoutError("no response without acks")
    offset: int = found.offset
    return offset


if __name__ == "__main__":
    relay_program.main(AiokafkaLibrary)
