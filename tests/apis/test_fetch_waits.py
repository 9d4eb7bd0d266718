"""A fetch waits for min_bytes unless more bytes cannot arrive."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from pykbroker import Broker
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.fetch import FetchRequest
from pykbroker_protocol.records.batch import iterate_batches
from pykbroker_protocol.records.corrupt import TruncatedBatch
from tests.apis.request_builders import (
    batch,
    fetched,
    from_partition,
    produced,
    to_partition,
)
from tests.apis.transcript import Transcript
from tests.apis.wire import TIMEOUT_SECONDS, Wire

if TYPE_CHECKING:
    from collections.abc import Iterator

TIMEOUT_MS = int(TIMEOUT_SECONDS * 1000) + 60_000
VALUE = bytes(500_000)  # two of them fill the smallest segment
BATCH_BYTES = len(batch(VALUE))
NO_SESSION = {"session_id": 0, "session_epoch": -1}
NEW_SESSION = {"session_id": 0, "session_epoch": 0}


@dataclass(frozen=True, slots=True)
class Topic:
    """Two partitions with small segments on PyKBroker or Apache Kafka."""

    name: str
    port: int

    def write(self, batches: int = 1, partition: int = 0) -> None:
        data = to_partition(batch(VALUE), topic=self.name, partition=partition)
        with Wire(self.port) as wire:
            for _ in range(batches):
                row = wire.ask(produced(data), 9).responses[0].partition_responses[0]
                assert row.error_code == ErrorCode.NONE

    def patient(self, *, least: int, bytes_max: int = 1 << 20, **more: Any) -> FetchRequest:
        """Returns a fetch whose maximum wait exceeds the duration of the test."""
        partitions = [
            from_partition(0, topic=self.name, partition=it, bytes_max=bytes_max) for it in (0, 1)
        ]
        return fetched(*partitions, min_bytes=least, max_wait_ms=TIMEOUT_MS, **more)


@pytest.fixture(params=["pykbroker", pytest.param("apache", marks=pytest.mark.oracle)])
def port(request: pytest.FixtureRequest) -> Iterator[int]:
    if request.param == "apache":
        yield request.getfixturevalue("apache").port
    else:
        with Broker() as broker:
            yield int(broker.bootstrap.rpartition(":")[2])


@pytest.fixture
def wire(port: int) -> Iterator[Wire]:
    with Wire(port) as it:
        yield it


@pytest.fixture
def topic(port: int) -> Topic:
    transcript = Transcript(port, prefix=f"patience-{uuid4().hex}", now_ms=0)
    made = transcript.topic(partitions=2, configs={"segment.bytes": str(1 << 20)})
    transcript.close()
    return Topic(made.name, port)


def offsets_in(answer: Any) -> dict[int, list[int]]:
    """Returns bytes by partition, without the partial batches that Apache Kafka sends."""
    found: dict[int, list[int]] = {}
    for row in (row for topic in answer.responses for row in topic.partitions if row.records):
        offsets = found[row.partition_index] = []
        with suppress(TruncatedBatch):
            offsets.extend(it.base_offset for it in iterate_batches(bytes(row.records)))
    return found


@pytest.mark.parametrize("session", [NO_SESSION, NEW_SESSION], ids=["no session", "a session"])
def test_a_fetch_with_too_few_bytes_waits_for_more(
    topic: Topic, wire: Wire, session: dict[str, int]
) -> None:
    topic.write()
    request = topic.patient(least=BATCH_BYTES + 1, **session)
    wire.send(request, 11)
    topic.write(partition=1)
    assert offsets_in(wire.receive(FetchRequest, 11)) == {0: [0], 1: [0]}


def test_a_fetch_does_not_wait_at_the_end_of_a_segment(topic: Topic, wire: Wire) -> None:
    topic.write(3)
    answer = wire.ask(topic.patient(least=100 * BATCH_BYTES), 11)
    assert offsets_in(answer) == {0: [0, 1]}


def test_a_fetch_does_not_wait_for_more_than_max_bytes(topic: Topic, wire: Wire) -> None:
    topic.write(2)
    answer = wire.ask(topic.patient(least=100 * BATCH_BYTES, max_bytes=BATCH_BYTES + 1), 11)
    assert offsets_in(answer) == {0: [0]}


def test_a_batch_that_exceeds_the_limit_counts_for_min_bytes(topic: Topic, wire: Wire) -> None:
    topic.write(2)
    half_more = BATCH_BYTES + BATCH_BYTES // 2
    answer = wire.ask(topic.patient(least=half_more, bytes_max=half_more), 11)
    assert offsets_in(answer) == {0: [0]}


def test_a_partition_counts_at_most_partition_max_bytes(topic: Topic, wire: Wire) -> None:
    topic.write(2)
    request = topic.patient(least=BATCH_BYTES + 1, bytes_max=BATCH_BYTES)
    wire.send(request, 11)
    topic.write(partition=1)
    assert offsets_in(wire.receive(FetchRequest, 11)) == {0: [0], 1: [0]}
