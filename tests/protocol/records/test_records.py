import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykbroker_protocol.records.batch import RecordBatch, TimestampType, iterate_batches
from pykbroker_protocol.records.builder import BatchBuilder
from pykbroker_protocol.records.compression import Compression
from pykbroker_protocol.records.contents import keyless_records, recompress, validate_contents
from pykbroker_protocol.records.corrupt import CorruptBatch
from pykbroker_protocol.records.record import Record
from pykbroker_protocol.records.times import max_timestamp_record, offset_and_timestamp_at_or_after

NOW = 1_700_000_000_000

optional_bytes = st.none() | st.binary(max_size=100)
records = st.lists(
    st.builds(
        Record,
        offset=st.just(0),
        timestamp=st.integers(0, 2**50),
        key=optional_bytes,
        value=optional_bytes,
        headers=st.lists(st.tuples(st.text(max_size=8), optional_bytes), max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=8,
)


def built(builder: BatchBuilder, some_records: list[Record]) -> RecordBatch:
    for record in some_records:
        builder.append(record.timestamp, record.key, record.value, record.headers)
    return RecordBatch.parse(builder.build())


def at_times(*timestamps: int, compression: Compression = Compression.NONE) -> RecordBatch:
    builder = BatchBuilder(base_offset=100, compression=compression)
    for timestamp in timestamps:
        builder.append(timestamp, b"k", b"v")
    return RecordBatch.parse(builder.build())


@given(records, st.sampled_from(Compression), st.integers(0, 2**62))
def test_built_records_are_decoded_to_equal_records(
    some_records: list[Record], compression: Compression, base_offset: int
) -> None:
    batch = built(BatchBuilder(compression=compression, base_offset=base_offset), some_records)
    assert batch.is_crc_valid()
    assert batch.compression is compression
    assert batch.max_timestamp == max(record.timestamp for record in some_records)
    validate_contents(batch)
    for index, (sent, read) in enumerate(zip(some_records, batch.records(), strict=True)):
        assert read.offset == base_offset + index
        assert (read.timestamp, read.key, read.value) == (sent.timestamp, sent.key, sent.value)
        assert read.headers == sent.headers


def test_the_header_has_the_settings_of_the_builder() -> None:
    builder = BatchBuilder(
        producer_id=7,
        producer_epoch=3,
        base_sequence=41,
        is_transactional=True,
        is_control=True,
        base_offset=9,
        partition_leader_epoch=5,
        log_append_time_ms=NOW + 5,
    )
    assert [builder.append(NOW, b"k", None), builder.append(NOW + 1, b"k", None)] == [9, 10]
    batch = RecordBatch.parse(builder.build())
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (7, 3, 41)
    assert (batch.last_offset, batch.next_offset, batch.last_sequence) == (10, 11, 42)
    assert (batch.partition_leader_epoch, batch.max_timestamp) == (5, NOW + 5)
    assert batch.is_transactional
    assert batch.is_control
    assert batch.is_idempotent
    assert not batch.has_delete_horizon
    assert batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert [record.timestamp for record in batch.records()] == [NOW + 5, NOW + 5]


@given(records, st.sampled_from(Compression), st.sampled_from(Compression))
def test_recompressing_changes_only_the_compression(
    some_records: list[Record], before: Compression, after: Compression
) -> None:
    original = built(
        BatchBuilder(compression=before, producer_id=5, producer_epoch=0, base_sequence=3),
        some_records,
    )
    again = RecordBatch.parse(recompress(original, after))
    assert again.is_crc_valid()
    assert again.compression is after
    assert list(again.records()) == list(original.records())
    kept = ("base_offset", "max_timestamp", "producer_id", "base_sequence", "record_count")
    assert all(getattr(again, name) == getattr(original, name) for name in kept)


@pytest.mark.parametrize("compression", Compression)
@pytest.mark.parametrize(
    ("timestamp", "found"),
    [(0, (100, 50)), (50, (100, 50)), (51, (101, 70)), (70, (101, 70)), (71, None)],
)
def test_a_timestamp_lookup_returns_the_first_record_that_is_not_older(
    compression: Compression, timestamp: int, found: tuple[int, int] | None
) -> None:
    batch = at_times(50, 70, 60, 70, compression=compression)
    assert offset_and_timestamp_at_or_after(batch, timestamp) == found


def test_the_max_timestamp_record_is_the_first_with_the_greatest_timestamp() -> None:
    assert max_timestamp_record(at_times(50, 70, 60, 70)) == (101, 70)


def test_with_log_append_time_lookups_return_the_first_record() -> None:
    builder = BatchBuilder(base_offset=100, log_append_time_ms=NOW)
    builder.append(5, None, b"a")
    builder.append(6, None, b"b")
    batch = RecordBatch.parse(builder.build())
    assert max_timestamp_record(batch) == (100, NOW)
    assert offset_and_timestamp_at_or_after(batch, NOW) == (100, NOW)
    assert offset_and_timestamp_at_or_after(batch, NOW + 1) is None


def a_batch_with(**changes: int) -> RecordBatch:
    batch = at_times(50, 70, 60)
    for name, value in changes.items():
        setattr(batch, name, value)
    return batch


@pytest.mark.parametrize(
    "batch",
    [
        a_batch_with(record_count=2),
        a_batch_with(record_count=4, last_offset_delta=3),
        a_batch_with(record_count=2, last_offset_delta=1),
        a_batch_with(record_count=2**31 - 1, last_offset_delta=2**31 - 2),
        a_batch_with(attributes=5),
        a_batch_with(attributes=Compression.GZIP),
    ],
)
def test_records_that_do_not_match_the_header_are_corrupt(batch: RecordBatch) -> None:
    with pytest.raises(CorruptBatch):
        validate_contents(batch)


def test_offset_deltas_must_be_consecutive() -> None:
    stored = bytearray(at_times(50, 70, 60).view)
    # Each record is 9 bytes: length, attributes, time, offset delta, "k", "v", no headers.
    assert stored[61 + 12] == 2
    stored[61 + 12] = 4
    with pytest.raises(CorruptBatch, match="offset delta is 2, expected 1"):
        validate_contents(RecordBatch.parse(stored))


def test_a_compacted_topic_requires_keys() -> None:
    builder = BatchBuilder()
    builder.append(NOW, None, b"v")
    batch = RecordBatch.parse(builder.build())
    validate_contents(batch)
    with pytest.raises(CorruptBatch, match="no key"):
        validate_contents(batch, keys_required=True)


@pytest.mark.parametrize(
    "record",
    [
        "",  # nothing
        "0200",  # shorter than any record
        "0c000000010400",  # value longer than its record
        "0c000000030100",  # key of -2 bytes
        "0c000000010101",  # -1 headers
        "0c0000000101fe",  # endless header count
        "100000000101020101",  # header without a name
        "0e00000001010000",  # a byte too many inside
        "0c00000001010000",  # a byte too many behind
        "feffffff0f000000010100",  # length beyond the end
        "ffffffffffffff0000",  # endless length
    ],
)
def test_a_malformed_record_is_corrupt(record: str) -> None:
    batch = at_times(50)
    batch.view = memoryview(bytes(61) + bytes.fromhex(record))
    with pytest.raises(CorruptBatch):
        list(batch.records())
    with pytest.raises(CorruptBatch):
        validate_contents(batch)


def test_an_invalid_utf8_header_name_is_decoded_with_replacements() -> None:
    builder = BatchBuilder()
    builder.append(NOW, None, None, [("ab", b"1")])
    stored = builder.build().replace(b"ab", b"\xff\xfe")
    (record,) = RecordBatch.parse(stored).records()
    assert record.headers == (("\ufffd\ufffd", b"1"),)


def read_everything(data: bytes) -> None:
    try:
        for batch in iterate_batches(data):
            max_timestamp_record(batch)
            validate_contents(batch)
    except CorruptBatch:
        pass


@settings(max_examples=300)
@given(
    records,
    st.sampled_from(Compression),
    st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 255)), max_size=4),
    st.integers(0, 400),
)
def test_hostile_batches_raise_only_corrupt_batch(
    some_records: list[Record],
    compression: Compression,
    changes: list[tuple[int, int]],
    cut: int,
) -> None:
    data = bytearray(built(BatchBuilder(compression=compression), some_records).view) * 2
    for position, value in changes:
        data[position % len(data)] = value
    read_everything(bytes(data[: len(data) - min(cut, len(data))] if cut % 3 == 0 else data))


@given(st.binary(max_size=500))
def test_random_records_raise_only_corrupt_batch(noise: bytes) -> None:
    good = bytearray(at_times(1, 2, 3).view[:61])
    for codec in Compression:
        good[22] = codec
        good[8:12] = (49 + len(noise)).to_bytes(4, "big")
        read_everything(bytes(good + noise))


def some_records() -> bytes:
    builder = BatchBuilder()
    for number in range(4):
        key = None if number == 2 else b"k" * (60 + number * 3)
        headers = [("h", b"1"), ("", None)] if number % 2 else []
        builder.append(NOW + number * 70, key, b"v" * number * 40, headers)
    return RecordBatch.parse(builder.build()).payload()


@settings(max_examples=400)
@given(
    changes=st.lists(st.tuples(st.integers(0, 399), st.integers(0, 255)), max_size=3),
    cut=st.integers(0, 3),
)
def test_validation_and_decoding_reject_the_same_records(
    changes: list[tuple[int, int]], cut: int
) -> None:
    payload = bytearray(some_records())
    for position, byte in changes:
        payload[position % len(payload)] = byte
    del payload[len(payload) - cut :]
    batch = at_times(*range(4))
    batch.view = memoryview(bytes(61) + bytes(payload))
    batch.record_count, batch.last_offset_delta = 4, 3
    try:
        records = list(batch.records())
        is_good = [it.offset - batch.base_offset for it in records] == [0, 1, 2, 3]
    except CorruptBatch:
        is_good = False
    if not is_good:
        with pytest.raises(CorruptBatch):
            validate_contents(batch)
        return
    keyless = [index for index, it in enumerate(records) if it.key is None]
    assert keyless_records(batch, batch.unpacked()) == keyless
    newest = max(records, key=lambda it: (it.timestamp, -it.offset))
    assert max_timestamp_record(batch) == (newest.offset, newest.timestamp)
