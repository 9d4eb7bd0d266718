import subprocess
import sys
from struct import calcsize

import pytest
from construct import Struct

from pykbroker_protocol.records.batch import RecordBatch
from pykbroker_protocol.records.builder import BatchBuilder
from pykbroker_protocol.records.compression import Compression
from pykbroker_storage import formats
from pykbroker_storage.producer_state import ProducerStates

NOW = 1_700_000_000_000


def a_batch() -> RecordBatch:
    builder = BatchBuilder(
        compression=Compression.LZ4,
        producer_id=2**40,
        producer_epoch=3,
        base_sequence=77,
        is_transactional=True,
        base_offset=2**33,
        partition_leader_epoch=12,
    )
    builder.append(NOW, b"k", b"v")
    builder.append(NOW + 9, None, b"w")
    return RecordBatch.parse(builder.build())


def test_the_declared_batch_header_equals_the_parsed_one() -> None:
    batch = a_batch()
    header = formats.BATCH_HEADER.parse(bytes(batch.view))
    for field in RecordBatch.__slots__:
        if field != "view":
            assert header[field] == getattr(batch, field), field
    assert header.last_offset == batch.last_offset


def test_the_declared_producer_snapshot_equals_the_encoded_one() -> None:
    states = ProducerStates()
    states.update(a_batch())
    stored = states.encode()
    snapshot = formats.PRODUCER_SNAPSHOT.parse(stored)
    (producer,) = snapshot.producers
    del producer["_io"]
    assert snapshot.version == 1
    assert producer == {
        "producer_id": 2**40,
        "producer_epoch": 3,
        "last_sequence": 78,
        "last_offset": 2**33 + 1,
        "offset_delta": 1,
        "timestamp": NOW + 9,
        "coordinator_epoch": -1,
        "transaction_first_offset": 2**33,
    }
    assert formats.PRODUCER_SNAPSHOT.build(snapshot) == stored


@pytest.mark.parametrize(
    ("layout", "fields"),
    [
        (formats.BATCH_HEADER, ">qiibIhiqqqhii"),
        (formats.OFFSET_INDEX_ENTRY, ">ii"),
        (formats.TIME_INDEX_ENTRY, ">qi"),
        (formats.TRANSACTION_INDEX_ENTRY, ">hqqqq"),
        (formats.PRODUCER_ENTRY, ">qhiqiqiq"),
    ],
)
def test_declared_entries_have_the_size_of_the_encoded_ones(layout: Struct, fields: str) -> None:
    assert layout.sizeof() == calcsize(fields)


def test_reading_producers_at_start_does_not_import_construct() -> None:
    program = "import sys, pykbroker_storage.producer_state; sys.exit('construct' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
