"""Produce requests whose records are validated in a thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pykbroker import Broker, Topic
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.metadata import MetadataRequest
from pykbroker_protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from pykbroker_protocol.records.builder import BatchBuilder
from pykbroker_protocol.records.compression import Compression
from tests.apis.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Iterator

MANY = 20_000
VERSION = 9


@pytest.fixture
def broker() -> Iterator[Broker]:
    topics = {"compacted": Topic(config={"cleanup.policy": "compact"}), "plain": Topic()}
    with Broker(topics=topics) as broker:
        yield broker


@pytest.fixture
def wire(broker: Broker) -> Iterator[Wire]:
    with Wire(int(broker.bootstrap.rpartition(":")[2])) as wire:
        yield wire


def request(
    topic: str, records: int, *, acks: int = 1, key: bytes | None = b"k", partition: int = 0
) -> ProduceRequest:
    builder = BatchBuilder(compression=Compression.ZSTD)
    for _ in range(records):
        builder.append(1_700_000_000_000, key, b"v")
    data = PartitionProduceData(index=partition, records=memoryview(builder.build()))
    return ProduceRequest(
        acks=acks,
        timeout_ms=30_000,
        topic_data=[TopicProduceData(name=topic, partition_data=[data])],
    )


def outcome(wire: Wire) -> tuple[int, int]:
    response = wire.receive(ProduceRequest, VERSION).responses[0].partition_responses[0]
    return response.error_code, response.base_offset


def test_requests_after_a_produce_validated_in_a_thread_are_answered_after_it(wire: Wire) -> None:
    wire.send(request("compacted", MANY), VERSION)
    wire.send(request("plain", 1), VERSION)
    wire.send(MetadataRequest(topics=[]), 12)
    wire.send(request("compacted", 1), VERSION)
    assert outcome(wire) == (ErrorCode.NONE, 0)
    assert outcome(wire) == (ErrorCode.NONE, 0)
    assert wire.receive(MetadataRequest, 12).brokers
    assert outcome(wire) == (ErrorCode.NONE, MANY)


@pytest.mark.parametrize("acks", [1, -1])
def test_repeated_produce_requests_are_validated_each_time(wire: Wire, acks: int) -> None:
    for number in range(4):
        wire.send(request("compacted", MANY, acks=acks), VERSION)
        assert outcome(wire) == (ErrorCode.NONE, number * MANY)
    wire.send(request("compacted", MANY, acks=acks, key=None), VERSION)
    assert outcome(wire)[0] == ErrorCode.INVALID_RECORD


def test_records_with_acks_0_are_appended_after_a_disconnect(
    broker: Broker,
) -> None:
    with Wire(int(broker.bootstrap.rpartition(":")[2])) as wire:
        wire.send(request("compacted", MANY, acks=0), VERSION)
    broker.wait_for("compacted", count=MANY)


def test_an_error_with_acks_0_closes_the_connection(wire: Wire) -> None:
    wire.send(request("compacted", MANY, acks=0, key=None), VERSION)
    wire.send(MetadataRequest(topics=[]), 12)
    with pytest.raises(ConnectionError):
        wire.receive(MetadataRequest, 12)
