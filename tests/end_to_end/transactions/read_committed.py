"""Reads a partition with read_committed from every offset."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from pykbroker_protocol.records.batch import iterate_batches
from tests.apis.request_builders import fetched, from_partition, offsets_at
from tests.apis.wire import Wire

if TYPE_CHECKING:
    from tests.apis.transactions.transcript import Producer, TransactionTranscript
    from tests.apis.transcript import Topic

COMMITTED = 1
LATEST = -1
Reads = dict[str, Any]


def aged_partition(broker: TransactionTranscript, topic: Topic) -> Producer:
    """Writes committed, aborted and one open transaction; returns the producer of the open one."""
    chance = Random(5)
    producers = [broker.producer(f"id{number}") for number in range(3)]
    still_open = broker.producer("open")
    for turn in range(40):
        if turn == 25:
            still_open.add(topic)
            still_open.send(topic)
        for producer in producers:
            producer.add(topic)
            producer.send(topic)
        for producer in chance.sample(producers, 3):
            producer.end(committed=chance.random() < 0.5)
    return still_open


def reads_at_every_offset(port: int, topic: str) -> Reads:
    with Wire(port) as wire:
        (latest,) = (
            wire.ask(asked, 9).topics[0].partitions[0].offset
            for asked in offsets_at(topic, (LATEST,), isolation=COMMITTED)
        )
        answers = [read(wire, topic, offset) for offset in range(latest + 1)]
    return {
        "latest": latest,
        "last stable offset": [it.last_stable_offset for it in answers],
        "batches": [offsets_of(it) for it in answers],
        "aborted": [aborted_of(it) for it in answers],
    }


def read(wire: Wire, topic: str, offset: int, **more: Any) -> Any:
    asked = fetched(from_partition(offset, topic=topic), isolation_level=COMMITTED, **more)
    (found,) = wire.ask(asked, 11).responses[0].partitions
    assert not found.error_code, found
    return found


def offsets_of(found: Any) -> list[int]:
    return [it.base_offset for it in iterate_batches(bytes(found.records or b""))]


def aborted_of(found: Any) -> list[tuple[int, int]]:
    """Filters aborted transactions that overlap the response; Apache Kafka adds later ones."""
    last = max(offsets_of(found), default=-1)
    return [
        (it.producer_id, it.first_offset)
        for it in found.aborted_transactions
        if it.first_offset <= last
    ]
