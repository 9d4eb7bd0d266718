"""Producers that record acknowledged offsets, and readers that check the log against them."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from zlib import crc32

from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.records.batch import RecordBatch, iterate_batches
from pykbroker_protocol.records.compression import Compression
from tests.apis.request_builders import (
    batch,
    created,
    fetched,
    from_partition,
    new_producer_id,
    new_topic,
    produced,
    to_partition,
)
from tests.apis.wire import Closed, Wire

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

    from compat.broker_process import BrokerProcess

PRODUCE_VERSION = 9
FETCH_VERSION = 11


def value_of(producer: int, number: int, size: int) -> bytes:
    """Returns a value with the producer, a record number and a checksum."""
    body = b"%d %d " % (producer, number)
    body += bytes((producer + number + it) % 251 for it in range(size))
    return crc32(body).to_bytes(4) + body


def read_value(value: bytes) -> tuple[int, int]:
    body = value[4:]
    assert crc32(body).to_bytes(4) == value[:4], "the content of a record has changed"
    producer, number, _ = body.split(b" ", 2)
    return int(producer), int(number)


@dataclass(slots=True)
class Sent:
    """A batch in flight: number of its first record, count, encoded records."""

    first: int
    count: int
    records: bytes


@dataclass(slots=True)
class LoyalProducer:
    """Produces numbered records to one partition and records the acknowledged offsets.

    An idempotent producer resends batches without a response; others continue with new numbers.
    """

    number: int
    topic: str
    partition: int
    acks: int
    is_idempotent: bool
    chance: Random
    next_record: int = 0
    next_sequence: int = 0
    producer_id: int = -1
    pending: list[Sent] = field(default_factory=list)
    acknowledged: dict[int, int] = field(default_factory=dict)  # record number -> offset
    failure: BaseException | None = None

    def run(self, port: int) -> None:
        """Produces until the connection closes."""
        try:
            with Wire(port) as wire:
                self.produce(wire)
        except Closed:
            return
        except BaseException as failure:
            self.failure = failure
            raise

    def produce(self, wire: Wire) -> None:
        if self.is_idempotent and self.producer_id < 0:
            self.producer_id = wire.ask(new_producer_id(), 4).producer_id
        if not self.is_idempotent:
            self.pending.clear()
        for sent in self.pending:
            self.send(wire, sent)
        while True:
            while len(self.pending) < self.depth:
                self.pending.append(self.next_batch())
                self.send(wire, self.pending[-1])
            self.receive(wire)

    @property
    def depth(self) -> int:
        return 1 + self.number % 4

    def next_batch(self) -> Sent:
        first, count = self.next_record, self.chance.randint(1, 5)
        values = [
            value_of(self.number, first + it, self.chance.randint(0, 300)) for it in range(count)
        ]
        records = batch(
            *values,
            now_ms=time.time_ns() // 1_000_000,
            codec=self.chance.choice((Compression.NONE, Compression.NONE, Compression.LZ4)),
            producer_id=self.producer_id,
            producer_epoch=0 if self.is_idempotent else -1,
            base_sequence=self.next_sequence if self.is_idempotent else -1,
        )
        self.next_record += count
        self.next_sequence += count
        return Sent(first, count, records)

    def send(self, wire: Wire, sent: Sent) -> None:
        data = to_partition(sent.records, topic=self.topic, partition=self.partition)
        wire.send(produced(data, acks=self.acks), PRODUCE_VERSION)

    def receive(self, wire: Wire) -> None:
        answer = wire.receive(type(produced()), PRODUCE_VERSION)
        (row,) = answer.responses[0].partition_responses
        assert row.error_code == ErrorCode.NONE, row
        sent = self.pending.pop(0)
        for index in range(sent.count):
            self.acknowledged[sent.first + index] = row.base_offset + index


class Load:
    """Runs several producers until the broker ends."""

    def __init__(self, producers: list[LoyalProducer]) -> None:
        self.producers = producers
        self.threads: list[threading.Thread] = []

    def start(self, port: int) -> None:
        self.threads = [
            threading.Thread(target=producer.run, args=(port,)) for producer in self.producers
        ]
        for thread in self.threads:
            thread.start()

    def join(self) -> None:
        for thread in self.threads:
            thread.join(30)
            assert not thread.is_alive()
        for producer in self.producers:
            assert producer.failure is None, producer.failure


@dataclass(slots=True)
class Reader:
    """Reads a partition from its last offset on and checks every record."""

    topic: str
    partition: int
    producers: list[LoyalProducer]
    next_offset: int = 0
    offsets: dict[tuple[int, int], int] = field(default_factory=dict)
    last_number: dict[int, int] = field(default_factory=dict)

    def read_on(self, broker: BrokerProcess) -> None:
        with Wire(broker.port) as wire:
            for found in self.batches(wire):
                self.take(found)

    def read_again(self, broker: BrokerProcess) -> None:
        """Reads all records from offset 0."""
        self.next_offset = 0
        self.offsets.clear()
        self.last_number.clear()
        self.read_on(broker)

    def batches(self, wire: Wire) -> Iterator[RecordBatch]:
        while True:
            asked = from_partition(self.next_offset, topic=self.topic, partition=self.partition)
            (row,) = wire.ask(fetched(asked), FETCH_VERSION).responses[0].partitions
            assert row.error_code == ErrorCode.NONE, row
            if not row.records:
                assert row.high_watermark == self.next_offset
                return
            yield from iterate_batches(bytes(row.records))

    def take(self, found: RecordBatch) -> None:
        assert found.base_offset == self.next_offset, "an offset is missing or duplicated"
        assert found.is_crc_valid()
        for record in found.records():
            assert record.value is not None
            producer, number = read_value(record.value)
            assert (producer, number) not in self.offsets, "a record is duplicated"
            assert number > self.last_number.get(producer, -1), "records are out of order"
            self.last_number[producer] = number
            self.offsets[producer, number] = record.offset
        self.next_offset = found.next_offset

    def expect_all_that_was_acknowledged(self) -> None:
        for producer in self.producers:
            for number, offset in producer.acknowledged.items():
                assert self.offsets.get((producer.number, number)) == offset, (
                    f"record {number} of producer {producer.number} was acknowledged at {offset}"
                )


def create_topic(broker: BrokerProcess, name: str, partitions: int, **configs: str) -> None:
    with Wire(broker.port) as wire:
        rows = [(key.replace("_", "."), value) for key, value in configs.items()]
        answer = wire.ask(created(new_topic(name, partitions, configs=rows)), 7)
        assert answer.topics[0].error_code == ErrorCode.NONE, answer
