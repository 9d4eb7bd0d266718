"""aiokafka and kafka-python decode our batches, and their batches are decoded."""

from collections.abc import Callable
from typing import Any

import pytest

from pykbroker_protocol.records.batch import RecordBatch
from pykbroker_protocol.records.builder import BatchBuilder
from pykbroker_protocol.records.compression import Compression
from pykbroker_protocol.records.record import Record

# kafka-python reads its schemas through a function that the standard library has retired.
pytestmark = pytest.mark.filterwarnings("ignore:.*is deprecated. Use files:DeprecationWarning")

NOW = 1_700_000_000_000
RECORDS = [
    Record(offset=0, timestamp=NOW, key=b"truck-1", value=b"53.55,9.99"),
    Record(offset=1, timestamp=NOW + 7, key=None, value=b"x" * 70_000),
    Record(offset=2, timestamp=NOW - 5, key=b"", value=None, headers=(("a", b"1"), ("b", None))),
    Record(offset=3, timestamp=NOW, key=b"k" * 200, value=b"", headers=(("\u00fc", b""),)),
]


def ours(compression: Compression) -> bytes:
    builder = BatchBuilder(
        compression=compression, producer_id=12, producer_epoch=1, base_sequence=5
    )
    for record in RECORDS:
        builder.append(record.timestamp, record.key, record.value, record.headers)
    return builder.build()


def theirs(builder: Any) -> bytes:
    for record in RECORDS:
        assert builder.append(
            record.offset, record.timestamp, record.key, record.value, list(record.headers)
        )
    return bytes(builder.build())


def aiokafka_batch(compression: Compression) -> bytes:
    from aiokafka.record.default_records import DefaultRecordBatchBuilder

    return theirs(
        DefaultRecordBatchBuilder(
            magic=2,
            compression_type=compression,
            is_transactional=False,
            producer_id=12,
            producer_epoch=1,
            base_sequence=5,
            batch_size=1_000_000,
        )
    )


def kafka_python_batch(compression: Compression) -> bytes:
    from kafka.record.default_records import DefaultRecordBatchBuilder

    return theirs(DefaultRecordBatchBuilder(2, compression, False, 12, 1, 5, 1_000_000))


def read_by(records_type: Any, stored: bytes) -> list[Record]:
    memory_records = records_type(stored)
    batch = memory_records.next_batch()
    assert batch.validate_crc()
    return [
        Record(
            offset=record.offset,
            timestamp=record.timestamp,
            key=record.key,
            value=record.value,
            headers=tuple((name, value) for name, value in record.headers),
        )
        for record in batch
    ]


@pytest.mark.parametrize("compression", Compression)
def test_aiokafka_decodes_our_batches(compression: Compression) -> None:
    from aiokafka.record.memory_records import MemoryRecords

    assert read_by(MemoryRecords, ours(compression)) == RECORDS


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
def test_kafka_python_decodes_our_batches(compression: Compression) -> None:
    from kafka.record.memory_records import MemoryRecords

    assert read_by(MemoryRecords, ours(compression)) == RECORDS


@pytest.mark.parametrize("compression", Compression)
def test_batches_of_aiokafka_are_decoded(compression: Compression) -> None:
    batch = RecordBatch.parse(aiokafka_batch(compression))
    assert batch.is_crc_valid()
    assert list(batch.records()) == RECORDS


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
def test_batches_of_kafka_python_are_decoded(compression: Compression) -> None:
    batch = RecordBatch.parse(kafka_python_batch(compression))
    assert batch.is_crc_valid()
    assert list(batch.records()) == RECORDS


@pytest.mark.parametrize("build", [aiokafka_batch, kafka_python_batch])
def test_uncompressed_batches_of_clients_have_our_bytes(
    build: Callable[[Compression], bytes],
) -> None:
    stored = bytearray(build(Compression.NONE))
    RecordBatch.parse(stored).assign_offsets(0, -1)  # one of them leaves 0 there
    assert stored == ours(Compression.NONE)
