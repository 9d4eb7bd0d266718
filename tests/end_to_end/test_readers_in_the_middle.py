"""Readers of deleted segments, stalled readers, and readers that disconnect."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from pykbroker_protocol.messages.delete_topics import DeleteTopicsRequest
from pykbroker_protocol.messages.fetch import FetchRequest
from pykbroker_protocol.records.batch import iterate_batches
from tests.apis.conversations.configurations import SET, altered
from tests.apis.request_builders import batch, fetched, from_partition, produced, to_partition
from tests.apis.wire import Wire
from tests.end_to_end.load import create_topic

if TYPE_CHECKING:
    from compat.broker_process import BrokerProcess
    from tests.end_to_end.conftest import StartBroker

SEGMENT_BYTES = 1 << 20
VALUE = bytes(200_000)
RECORDS = 60
MEBIBYTE = 1 << 20


def resident_bytes(broker: BrokerProcess) -> int:
    """Returns anonymous memory; the kernel can reclaim pages of mapped files."""
    for line in Path(f"/proc/{broker.pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("RssAnon is missing in /proc")


def fill(broker: BrokerProcess, topic: str, records: int = RECORDS, age_ms: int = 0) -> None:
    now_ms = time.time_ns() // 1_000_000 - age_ms
    with Wire(broker.port) as wire:
        for number in range(records):
            data = to_partition(batch(b"%05d" % number + VALUE, now_ms=now_ms), topic=topic)
            row = wire.ask(produced(data), 9).responses[0].partition_responses[0]
            assert row.error_code == ErrorCode.NONE


def fetch_row(wire: Wire, topic: str, offset: int, bytes_max: int = MEBIBYTE) -> Any:
    asked = from_partition(offset, topic=topic, bytes_max=bytes_max)
    return wire.ask(fetched(asked), 11).responses[0].partitions[0]


def numbers_in(row: Any) -> list[int]:
    found = []
    for one in iterate_batches(bytes(row.records)):
        assert one.is_crc_valid()
        found += [int((record.value or b"")[:5]) for record in one.records()]
    return found


def start_answers_that_wait(broker: BrokerProcess, topic: str) -> Wire:
    """A consumer that requests everything and reads no response."""
    slow = Wire(broker.port, receive_buffer=4096)
    for offset in range(0, RECORDS, 5):
        slow.send(fetched(from_partition(offset, topic=topic)), 11)
    return slow


def rest_of_the_answers(slow: Wire) -> list[Any]:
    answers = [slow.receive(FetchRequest, 11) for _ in range(0, RECORDS, 5)]
    return [answer.responses[0].partitions[0] for answer in answers]


def delete_records(broker: BrokerProcess, topic: str) -> None:
    asked = DeleteRecordsPartition(partition_index=0, offset=RECORDS - 1)
    with Wire(broker.port) as wire:
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=topic, partitions=[asked])], timeout_ms=5000
        )
        answer = wire.ask(request, 2)
        assert answer.topics[0].partitions[0].low_watermark == RECORDS - 1


def delete_topic(broker: BrokerProcess, topic: str) -> None:
    with Wire(broker.port) as wire:
        answer = wire.ask(DeleteTopicsRequest(topic_names=[topic], timeout_ms=5000), 5)
        assert answer.responses[0].error_code == ErrorCode.NONE


def until_files_are_gone(broker: BrokerProcess, topic: str) -> None:
    """Deleted segments are unlinked after `file.delete.delay.ms`, with or without readers."""
    deadline = time.monotonic() + 20
    while len(list(broker.data_dir.glob(f"{topic}-0*/*.log*"))) > 2:
        assert time.monotonic() < deadline, list(broker.data_dir.glob(f"{topic}-0*/*"))
        time.sleep(0.02)


SMALL = {"log.segment.bytes": SEGMENT_BYTES, "log.segment.delete.delay.ms": 0}


@pytest.mark.parametrize("deletion", [delete_records, delete_topic])
def test_a_reader_of_deleted_segments_gets_whole_batches_or_an_error(
    start_broker: StartBroker, deletion: Any
) -> None:
    broker = start_broker(settings=SMALL)
    create_topic(broker, "t", 1)
    fill(broker, "t")
    with start_answers_that_wait(broker, "t") as slow:
        deletion(broker, "t")
        until_files_are_gone(broker, "t")
        rows = rest_of_the_answers(slow)
    assert numbers_in(rows[0])[0] == 0  # sent before the deletion
    for index, row in enumerate(rows):
        if row.error_code == ErrorCode.NONE:
            assert numbers_in(row)[0] == index * 5
        else:
            assert row.error_code in (
                ErrorCode.OFFSET_OUT_OF_RANGE,
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            )
    create_topic(broker, "other", 1)
    fill(broker, "other", 1)


def test_retention_does_not_wait_for_a_reader(start_broker: StartBroker) -> None:
    settings = {**SMALL, "log.retention.check.interval.ms": 50}
    broker = start_broker(settings=settings)
    create_topic(broker, "t", 1, retention_ms="604800000")
    fill(broker, "t", age_ms=3_600_000)
    with start_answers_that_wait(broker, "t") as slow, Wire(broker.port) as wire:
        assert not wire.ask(altered("t", ("retention.ms", SET, "1000")), 1).responses[0].error_code
        until_files_are_gone(broker, "t")
        rows = rest_of_the_answers(slow)
        assert numbers_in(rows[0])[0] == 0
        assert fetch_row(wire, "t", 0).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    fill(broker, "t", 1)


def test_a_waiting_fetch_completes_when_its_topic_is_deleted(broker: BrokerProcess) -> None:
    create_topic(broker, "t", 1)
    with Wire(broker.port) as wire:
        wire.send(fetched(from_partition(topic="t"), max_wait_ms=25_000), 11)
        with Wire(broker.port) as other:
            fetch_row(other, "t", 0)  # by then the broker has read the first request
        began = time.monotonic()
        delete_topic(broker, "t")
        (row,) = wire.receive(FetchRequest, 11).responses[0].partitions
    assert row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert time.monotonic() - began < 10


def test_stalled_readers_do_not_delay_others_and_cost_little_memory(
    start_broker: StartBroker,
) -> None:
    broker = start_broker(settings=SMALL)
    create_topic(broker, "t", 1)
    fill(broker, "t")
    before = resident_bytes(broker)
    stalled = [start_answers_that_wait(broker, "t") for _ in range(30)]
    try:
        with Wire(broker.port) as wire:
            assert numbers_in(fetch_row(wire, "t", 0))[0] == 0
            began = time.monotonic()
            for offset in range(RECORDS):
                assert numbers_in(fetch_row(wire, "t", offset))[0] == offset
            assert time.monotonic() - began < 20
            fill(broker, "t", 5)
        growth = resident_bytes(broker) - before
        assert growth < 60 * MEBIBYTE, f"{growth >> 20} MiB more"
    finally:
        for reader in stalled:
            reader.close()


def test_a_disconnected_reader_releases_its_memory_and_descriptors(
    broker: BrokerProcess,
) -> None:
    create_topic(broker, "t", 1)
    fill(broker, "t", 20)
    for _ in range(50):
        start_answers_that_wait(broker, "t").close()
    with Wire(broker.port) as wire:
        assert numbers_in(fetch_row(wire, "t", 19)) == [19]
    delete_topic(broker, "t")
