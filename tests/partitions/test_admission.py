"""Admission of produced batches, as a table of batches and results."""

from __future__ import annotations

from struct import pack_into
from typing import TYPE_CHECKING

import pytest

from pykbroker.partitions.admission import (
    COMPRESSED_ON_LOOP_BYTES_MAX,
    PARSED_ON_LOOP_MAX,
    SKIPPED_ON_LOOP_MAX,
    ToInspect,
    admit,
    inspect,
)
from pykbroker.partitions.tiling import records_tile
from pykbroker.settings import load_settings, resolve_topic
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.records.batch import (
    CHECKED_FROM,
    CRC_AT,
    LENGTH_AT,
    PREFIX_BYTES,
    RecordBatch,
)
from pykbroker_protocol.records.builder import BatchBuilder
from pykbroker_protocol.records.compression import Compression, compress
from pykbroker_protocol.records.crc32c import checksum
from pykbroker_protocol.records.times import no_pause

if TYPE_CHECKING:
    from pykbroker.settings import TopicSettings

NOW_MS = 1_700_000_000_000
DEFAULTS = resolve_topic(load_settings(), {})
COMPACTED = resolve_topic(load_settings(), {"cleanup.policy": "compact"})


def batch_of(
    *values: bytes,
    key: bytes | None = b"k",
    timestamp_ms: int = NOW_MS,
    compression: Compression = Compression.NONE,
) -> bytearray:
    builder = BatchBuilder(compression=compression)
    for value in values or (b"v",):
        builder.append(timestamp=timestamp_ms, key=key, value=value)
    return bytearray(builder.build())


def verdict(
    records: bytearray | None, settings: TopicSettings = DEFAULTS, version: int = 9
) -> ErrorCode:
    view = None if records is None else memoryview(records)
    outcome = admit(view, settings, produce_version=version, now_ms=NOW_MS)
    if isinstance(outcome, ToInspect):
        outcome = inspect(outcome.batch, settings, NOW_MS, no_pause)
    return ErrorCode.NONE if isinstance(outcome, RecordBatch) else outcome.code


def changed(records: bytearray, position: int, byte: int) -> bytearray:
    records[position] = byte
    return records


@pytest.mark.parametrize("compression", list(Compression))
def test_a_valid_batch_is_admitted_in_every_compression(compression: Compression) -> None:
    assert verdict(batch_of(b"a", b"b" * 300, compression=compression)) == ErrorCode.NONE


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (None, ErrorCode.INVALID_RECORD),
        (bytearray(), ErrorCode.INVALID_RECORD),
        (batch_of()[:40], ErrorCode.INVALID_RECORD),
        (changed(batch_of(), 16, 1), ErrorCode.INVALID_RECORD),
        (changed(batch_of(), 16, 3), ErrorCode.CORRUPT_MESSAGE),
        (batch_of() + batch_of(), ErrorCode.INVALID_RECORD),
        (changed(batch_of(), 7, 5), ErrorCode.INVALID_RECORD),
        (changed(batch_of(), -1, 0xFF), ErrorCode.CORRUPT_MESSAGE),
        (changed(batch_of(), 20, 0xFF), ErrorCode.CORRUPT_MESSAGE),
    ],
    ids=[
        "null",
        "empty",
        "cut off",
        "magic 1",
        "magic 3",
        "two",
        "base offset",
        "flipped",
        "wrong crc",
    ],
)
def test_an_invalid_batch_is_refused(records: bytearray | None, code: ErrorCode) -> None:
    assert verdict(records) == code


def test_zstd_requires_produce_version_7() -> None:
    records = batch_of(compression=Compression.ZSTD)
    assert verdict(records, version=6) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert verdict(records, version=7) == ErrorCode.NONE


def test_a_batch_above_max_message_bytes_is_refused_with_both_sizes() -> None:
    settings = DEFAULTS.replaced(max_message_bytes=100)
    records = batch_of(b"x" * 100)
    refusal = admit(memoryview(records), settings, produce_version=9, now_ms=NOW_MS)
    assert isinstance(refusal, Refusal)
    assert refusal.code == ErrorCode.MESSAGE_TOO_LARGE
    assert str(len(records)) in (refusal.message or "")
    assert "100" in (refusal.message or "")


def test_a_record_with_a_future_timestamp_is_refused() -> None:
    hour_ms = 3_600_000
    assert verdict(batch_of(timestamp_ms=NOW_MS + hour_ms)) == ErrorCode.NONE
    assert verdict(batch_of(timestamp_ms=NOW_MS + hour_ms + 1)) == ErrorCode.INVALID_TIMESTAMP


def with_header(records: bytearray, layout: str, position: int, value: int) -> bytearray:
    """Changes one number in the header of a batch and updates the checksum."""
    pack_into(layout, records, position, value)
    pack_into(">I", records, CRC_AT, checksum(memoryview(records)[CHECKED_FROM:]))
    return records


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
@pytest.mark.parametrize(
    ("greatest_ms", "code"),
    [
        (NOW_MS + 3_600_000, ErrorCode.NONE),
        (NOW_MS + 3_600_001, ErrorCode.INVALID_TIMESTAMP),
        (2**62, ErrorCode.INVALID_TIMESTAMP),
        (NOW_MS - 1000, ErrorCode.NONE),
        (NOW_MS - 1001, ErrorCode.INVALID_TIMESTAMP),
        (-1, ErrorCode.NONE),
    ],
)
def test_a_header_with_a_timestamp_out_of_bounds_is_refused_even_if_its_records_are_valid(
    greatest_ms: int, code: ErrorCode, compression: Compression
) -> None:
    settings = DEFAULTS.replaced(message_timestamp_before_max_ms=1000)
    lying = with_header(batch_of(compression=compression), ">q", 35, greatest_ms)
    assert verdict(lying, settings) == code


def claiming(records: bytearray, count: int) -> bytearray:
    pack_into(">i", records, 23, count - 1)
    return with_header(records, ">i", 57, count)


HEADERS = [  # record count, last offset delta, producer id, producer epoch, base sequence
    ((2, 1, -1, -1, -1), ErrorCode.NONE),
    ((2, 0, -1, -1, -1), ErrorCode.INVALID_RECORD),
    ((2, 2, -1, -1, -1), ErrorCode.INVALID_RECORD),
    ((1, 1, -1, -1, -1), ErrorCode.INVALID_RECORD),
    ((3, 1, -1, -1, -1), ErrorCode.INVALID_RECORD),
    ((0, -1, -1, -1, -1), ErrorCode.INVALID_RECORD),
    ((0, 1, -1, -1, -1), ErrorCode.INVALID_RECORD),
    ((-1, -2, -1, -1, -1), ErrorCode.INVALID_RECORD),
    ((2, 1, 0, 0, 0), ErrorCode.NONE),
    ((2, 1, 5, 3, 7), ErrorCode.NONE),
    ((2, 1, 5, -1, 7), ErrorCode.INVALID_RECORD),
    ((2, 1, 5, 3, -1), ErrorCode.INVALID_RECORD),
    ((2, 1, 0, -1, 0), ErrorCode.INVALID_RECORD),
    ((2, 1, 0, 0, -1), ErrorCode.INVALID_RECORD),
    ((2, 1, -1, 3, 7), ErrorCode.NONE),
]


@pytest.mark.parametrize(("header", "code"), HEADERS)
def test_an_inconsistent_header_is_refused(
    header: tuple[int, int, int, int, int], code: ErrorCode
) -> None:
    count, last_delta, producer_id, producer_epoch, base_sequence = header
    records = batch_of(b"a", b"b")
    pack_into(">i", records, 23, last_delta)
    pack_into(">qhi", records, 43, producer_id, producer_epoch, base_sequence)
    assert verdict(with_header(records, ">i", 57, count)) == code


@pytest.mark.parametrize("compression", list(Compression))
def test_a_record_count_beyond_the_batch_size_is_refused_without_unpacking(
    compression: Compression,
) -> None:
    assert verdict(claiming(batch_of(compression=compression), 2**31 - 1)) == (
        ErrorCode.INVALID_RECORD
    )


@pytest.mark.parametrize("compression", list(Compression))
def test_the_smallest_records_are_accepted_at_every_compression_ratio(
    compression: Compression,
) -> None:
    packed = compress(compression, bytes([12, 0, 0, 0, 1, 1, 0]) * 1_000_000)
    records = batch_of(compression=compression)[:61] + packed
    pack_into(">i", records, LENGTH_AT, len(records) - PREFIX_BYTES)
    settings = DEFAULTS.replaced(max_message_bytes=10_000_000)
    assert verdict(claiming(records, 1_000_000), settings) == ErrorCode.NONE


def test_a_record_older_than_timestamp_before_max_is_refused() -> None:
    settings = DEFAULTS.replaced(message_timestamp_before_max_ms=1000)
    assert verdict(batch_of(timestamp_ms=NOW_MS - 1000), settings) == ErrorCode.NONE
    assert verdict(batch_of(timestamp_ms=NOW_MS - 1001), settings) == ErrorCode.INVALID_TIMESTAMP


def test_a_compacted_topic_refuses_a_record_without_a_key() -> None:
    assert verdict(batch_of(key=b"k"), COMPACTED) == ErrorCode.NONE
    assert verdict(batch_of(key=None), COMPACTED) == ErrorCode.INVALID_RECORD


def test_a_control_batch_from_a_client_is_refused() -> None:
    builder = BatchBuilder(is_control=True, is_transactional=True, producer_id=1, producer_epoch=0)
    builder.append(timestamp=NOW_MS, key=b"\0\0\0\1", value=b"\0\0\0\0\0\0")
    assert verdict(bytearray(builder.build())) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("size", [0, 1, 61, 62, 63, 64, 127, 128, 8191, 8192, 100_000])
def test_records_of_every_length_lead_to_the_end_of_their_batch(size: int) -> None:
    assert records_tile(RecordBatch.parse(batch_of(b"x" * size, b"y", b"")))


def test_record_lengths_that_do_not_fill_the_batch_are_refused() -> None:
    records = batch_of(b"abc", b"def")
    lying = changed(bytearray(records), 61, records[61] + 2)
    assert not records_tile(RecordBatch.parse(lying))


@pytest.mark.parametrize("odd_one", [0, 1, 5, 99, 400, 511, 512, 513, 998, 999])
@pytest.mark.parametrize("change", [-4, 4])
def test_one_wrong_length_among_a_thousand_is_found(odd_one: int, change: int) -> None:
    batch = RecordBatch.parse(batch_of(*[b"x" * 100] * 1000))
    assert records_tile(batch)
    lying = bytearray(batch.view)
    position = 61
    for _ in range(odd_one):
        size = (lying[position] & 0x7F | lying[position + 1] << 7) >> 1
        position += 2 + size
    lying[position] = lying[position] + change & 0xFF
    assert not records_tile(RecordBatch.parse(lying))


def test_records_of_random_lengths_are_checked_like_one_by_one() -> None:
    lengths = [(number * 37) % 300 for number in range(2000)]
    assert records_tile(RecordBatch.parse(batch_of(*(b"x" * it for it in lengths))))


COUNTS = (1, PARSED_ON_LOOP_MAX, PARSED_ON_LOOP_MAX + 1, SKIPPED_ON_LOOP_MAX + 1)


@pytest.mark.parametrize(
    ("overrides", "compression", "expected"),
    [
        ({}, Compression.NONE, (False, False, False, True)),
        ({}, Compression.ZSTD, (False, False, False, False)),
        ({"cleanup.policy": "compact"}, Compression.NONE, (False, False, True, True)),
        ({"cleanup.policy": "compact"}, Compression.ZSTD, (True, True, True, True)),
        ({"compression.type": "zstd"}, Compression.ZSTD, (False, False, False, False)),
        ({"compression.type": "zstd"}, Compression.GZIP, (True, True, True, True)),
        ({"compression.type": "zstd"}, Compression.NONE, (False, False, True, True)),
        ({"compression.type": "uncompressed"}, Compression.NONE, (False, False, False, True)),
        ({"message.timestamp.before.max.ms": "1000"}, Compression.LZ4, (True, True, True, True)),
        ({"message.timestamp.after.max.ms": "0"}, Compression.LZ4, (False, False, False, False)),
    ],
)
def test_records_that_take_long_are_inspected_in_a_thread(
    overrides: dict[str, str], compression: Compression, expected: tuple[bool, ...]
) -> None:
    settings = resolve_topic(load_settings(), overrides)
    batches = (batch_of(*([b"v"] * count), compression=compression) for count in COUNTS)
    outcomes = [admit(memoryview(it), settings, 9, NOW_MS) for it in batches]
    assert tuple(isinstance(it, ToInspect) for it in outcomes) == expected


def test_a_large_batch_is_recompressed_in_a_thread() -> None:
    settings = resolve_topic(load_settings(), {"compression.type": "gzip"})
    for size, takes_long in ((1000, False), (COMPRESSED_ON_LOOP_BYTES_MAX, True)):
        outcome = admit(memoryview(batch_of(b"x" * size)), settings, 9, NOW_MS)
        assert isinstance(outcome, ToInspect) == takes_long


def test_a_record_count_beyond_the_unpacked_limit_is_refused() -> None:
    """14 million records fit into 100 MiB, 15 million do not; the codec allows both."""
    for count, code in ((14_000_000, ErrorCode.NONE), (15_000_000, ErrorCode.INVALID_RECORD)):
        batch = batch_of(b"x" * 100_000, compression=Compression.ZSTD)
        batch += bytes(10_000)
        pack_into(">i", batch, LENGTH_AT, len(batch) - PREFIX_BYTES)
        pack_into(">i", batch, 23, count - 1)
        pack_into(">i", batch, 57, count)
        pack_into(">I", batch, CRC_AT, checksum(memoryview(batch)[CHECKED_FROM:]))
        assert verdict(batch) == code
