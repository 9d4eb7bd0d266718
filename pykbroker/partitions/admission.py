"""Validates the record batch of a Produce request and recompresses it for `compression.type`.

The header and its checksum are always checked. The lengths of uncompressed records are checked, so
that a batch that consumers cannot read is refused. A compressed batch is unpacked only if settings
of the topic require it; otherwise its header is trusted within plausible limits. A batch with few
records is checked on the event loop, a larger one by `inspect` in a thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pykbroker.partitions.tiling import records_tile
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.records.batch import (
    CHECKED_FROM,
    COMPRESSION_MASK,
    CONTROL_FLAG,
    CRC_AT,
    HEADER_BYTES,
    LENGTH_AT,
    PREFIX_BYTES,
    RecordBatch,
)
from pykbroker_protocol.records.compression import DECOMPRESSED_BYTES_MAX, Compression
from pykbroker_protocol.records.contents import (
    KEYLESS_REPORTED_MAX,
    keyless_records,
    recompress,
    validate_contents,
)
from pykbroker_protocol.records.corrupt import CorruptBatch, TruncatedBatch
from pykbroker_protocol.records.crc32c import checksum
from pykbroker_protocol.records.record import RECORD_BYTES_MIN
from pykbroker_protocol.records.times import Pause, no_pause, offsets_and_timestamps

if TYPE_CHECKING:
    from pykbroker.settings import TopicSettings

AS_PRODUCED = "producer"
CODECS = {"uncompressed": Compression.NONE} | {
    it.name.lower(): it for it in Compression if it is not Compression.NONE
}
"""Codecs by the values of `compression.type`; `producer` keeps the codec of the batch."""
MAGIC_POSITION = 16
MAGIC = 2
NO_COMPRESSION, ZSTD = int(Compression.NONE), int(Compression.ZSTD)
ZSTD_SINCE_VERSION = 7
NO_TIMESTAMP = -1
UNLIMITED_MS = 2**63 - 1
LONG_AGO_MS = -(2**63)
PARSED_ON_LOOP_MAX = 1_000
SKIPPED_ON_LOOP_MAX = 10_000
"""Records that are parsed, or skipped by length, on the event loop: about a millisecond."""
COMPRESSED_ON_LOOP_BYTES_MAX = 16 * 1024
RECORDS_REPORTED_MAX = KEYLESS_REPORTED_MAX
INFLATION_MAX = (1, 1032, 22, 255, 32768)
"""The best compression ratio of each codec: Deflate 258 bytes from 2 bits, Snappy 64 from 3 bytes,
LZ4 255 from each further length byte, Zstandard a block of 128 KiB from 4 bytes."""


class Malformed(Refusal):
    """Not one batch of a known version: Kafka refuses it before it looks up the partition."""

    __slots__ = ()


class RecordsRefused(NamedTuple):
    """Refuses a batch because of single records, given by their index in the batch (KIP-467)."""

    code: ErrorCode
    message: str
    indexes: list[int]


class ToInspect(NamedTuple):
    """A batch with a valid header whose records take long to check; `inspect` checks them."""

    batch: RecordBatch


def admit(
    records: memoryview | None, settings: TopicSettings, produce_version: int, now_ms: int
) -> RecordBatch | ToInspect | Refusal | RecordsRefused:
    """Returns the one batch of a partition in a Produce request, or the refusal."""
    batch = read(records)
    if not isinstance(batch, RecordBatch):
        return batch
    refusal = refusal_of(batch, settings, produce_version)
    if refusal is not None:
        return refusal
    codec = batch.attributes & COMPRESSION_MASK
    is_plain = codec == NO_COMPRESSION and batch.record_count <= PARSED_ON_LOOP_MAX
    if not (is_plain and settings.compression_type == AS_PRODUCED) and takes_long(
        batch, settings, codec, now_ms
    ):
        return ToInspect(batch)
    return refusal_of_records(batch, settings, codec, now_ms, no_pause) or batch


def inspect(
    batch: RecordBatch, settings: TopicSettings, now_ms: int, pause: Pause
) -> RecordBatch | Refusal | RecordsRefused:
    """Returns the batch in the codec of its topic, or the refusal; runs in a thread."""
    codec = batch.attributes & COMPRESSION_MASK
    refusal = refusal_of_records(batch, settings, codec, now_ms, pause)
    if refusal is not None or settings.compression_type == AS_PRODUCED:
        return refusal or batch
    try:
        return in_codec(batch, settings.compression_type, pause)
    except CorruptBatch as error:
        return unreadable(error)


def takes_long(batch: RecordBatch, settings: TopicSettings, codec: int, now_ms: int) -> bool:
    """Returns True if checking the records may take more than about a millisecond.

    A few compressed bytes can unpack to 100 MB, so the event loop unpacks no batch.
    """
    if codec == NO_COMPRESSION:
        count = batch.record_count
        if count <= PARSED_ON_LOOP_MAX:
            return (
                settings.compression_type not in (AS_PRODUCED, "uncompressed")
                and batch.size_bytes > COMPRESSED_ON_LOOP_BYTES_MAX
            )
        if count > SKIPPED_ON_LOOP_MAX:
            return True
    return (
        "compact" in settings.cleanup_policy
        or not is_in_codec(codec, settings.compression_type)
        or must_check_timestamps(batch, settings, now_ms)
    )


def read(records: memoryview | None) -> RecordBatch | Refusal:
    """Returns the first batch if no second one follows; ignores a truncated second batch."""
    if records is None or len(records) <= MAGIC_POSITION:
        return Malformed(ErrorCode.INVALID_RECORD)
    if records[MAGIC_POSITION] != MAGIC:
        is_old_format = records[MAGIC_POSITION] < MAGIC
        return Malformed(ErrorCode.INVALID_RECORD if is_old_format else ErrorCode.CORRUPT_MESSAGE)
    try:
        batch = RecordBatch.parse(records)
    except TruncatedBatch:
        return Malformed(ErrorCode.INVALID_RECORD)
    except CorruptBatch:
        return refusal_of_header(records)
    if batch.size_bytes == len(records):
        return batch
    return refusal_of_tail(records[batch.size_bytes :]) or batch


def refusal_of_header(records: memoryview) -> Refusal:
    """INVALID_RECORD for a wrong header with a valid checksum, else CORRUPT_MESSAGE."""
    length = int.from_bytes(records[LENGTH_AT : LENGTH_AT + 4], signed=True)
    is_whole = HEADER_BYTES <= length + PREFIX_BYTES <= len(records)
    crc = int.from_bytes(records[CRC_AT : CRC_AT + 4])
    if is_whole and checksum(records[CHECKED_FROM : length + PREFIX_BYTES]) == crc:
        return Refusal(ErrorCode.INVALID_RECORD)
    return Refusal(ErrorCode.CORRUPT_MESSAGE)


def refusal_of_tail(tail: memoryview) -> Refusal | None:
    try:
        RecordBatch.parse(tail)
    except TruncatedBatch:
        return None
    except CorruptBatch:
        return Malformed(ErrorCode.CORRUPT_MESSAGE)
    return Malformed(
        ErrorCode.INVALID_RECORD, "A Produce request may contain one record batch per partition."
    )


def refusal_of(batch: RecordBatch, settings: TopicSettings, version: int) -> Refusal | None:
    """Checks the header in Kafka's order, before the records."""
    codec = batch.attributes & COMPRESSION_MASK
    if codec >= ZSTD and (codec > ZSTD or version < ZSTD_SINCE_VERSION):
        return Malformed(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    if batch.base_offset != 0:
        return Refusal(ErrorCode.INVALID_RECORD)
    if batch.size_bytes > settings.max_message_bytes:
        return too_large(batch.size_bytes, settings.max_message_bytes)
    if not batch.is_crc_valid():
        return Refusal(ErrorCode.CORRUPT_MESSAGE)
    if batch.attributes & CONTROL_FLAG or not is_consistent(batch):
        return Refusal(ErrorCode.INVALID_RECORD)
    return None


def refusal_of_records(
    batch: RecordBatch, settings: TopicSettings, codec: int, now_ms: int, pause: Pause
) -> Refusal | RecordsRefused | None:
    return refusal_of_time(batch, settings, now_ms, pause) or refusal_of_contents(
        batch, settings, codec, pause
    )


def unreadable(error: CorruptBatch) -> Refusal:
    return Refusal(ErrorCode.INVALID_RECORD, f"The records cannot be read: {error}.")


def too_large(size_bytes: int, bytes_max: int) -> Refusal:
    reason = f"The batch has {size_bytes} bytes, max.message.bytes of the topic is {bytes_max}."
    return Refusal(ErrorCode.MESSAGE_TOO_LARGE, reason)


def is_consistent(batch: RecordBatch) -> bool:
    """Returns True if record count, offset delta, producer id, epoch and sequence agree."""
    if batch.record_count < 1 or batch.record_count != batch.last_offset_delta + 1:
        return False
    return batch.producer_id < 0 or (batch.base_sequence >= 0 and batch.producer_epoch >= 0)


def must_check_timestamps(batch: RecordBatch, settings: TopicSettings, now_ms: int) -> bool:
    """Returns False for most batches, because the header contains the maximum timestamp."""
    return settings.message_timestamp_type == "CreateTime" and (
        settings.message_timestamp_before_max_ms != UNLIMITED_MS
        or batch.max_timestamp > now_ms + settings.message_timestamp_after_max_ms
    )


def refusal_of_time(
    batch: RecordBatch, settings: TopicSettings, now_ms: int, pause: Pause
) -> Refusal | RecordsRefused | None:
    """Refuses timestamps outside `message.timestamp.before.max.ms` and `after.max.ms`."""
    if not must_check_timestamps(batch, settings, now_ms):
        return None
    newest_ms = now_ms + settings.message_timestamp_after_max_ms
    bounded_ms = settings.message_timestamp_before_max_ms
    oldest_ms = now_ms - bounded_ms if bounded_ms < UNLIMITED_MS else LONG_AGO_MS
    outside = records_outside(batch, oldest_ms, newest_ms, pause)
    if outside:
        return RecordsRefused(
            ErrorCode.INVALID_TIMESTAMP,
            f"Timestamps of records are outside the range that the topic allows: {oldest_ms} to "
            f"{newest_ms} ms since 1970.",
            outside,
        )
    claimed_ms = batch.max_timestamp
    if claimed_ms != NO_TIMESTAMP and not oldest_ms <= claimed_ms <= newest_ms:
        return Refusal(  # retention uses the header
            ErrorCode.INVALID_TIMESTAMP,
            f"The maximum timestamp in the batch header, {claimed_ms}, matches no record and is "
            f"outside the range that the topic allows: {oldest_ms} to {newest_ms} ms since 1970.",
        )
    return None


def records_outside(batch: RecordBatch, oldest_ms: int, newest_ms: int, pause: Pause) -> list[int]:
    found: list[int] = []
    first = 0
    try:
        for _, timestamps in offsets_and_timestamps(batch, pause):
            found += [
                index
                for index, timestamp in enumerate(timestamps, first)
                if timestamp != NO_TIMESTAMP and not oldest_ms <= timestamp <= newest_ms
            ]
            first += len(timestamps)
            if len(found) >= RECORDS_REPORTED_MAX:
                break
    except CorruptBatch:
        return []  # `refusal_of_contents` reports the error
    return found[:RECORDS_REPORTED_MAX]


def refusal_of_contents(
    batch: RecordBatch, settings: TopicSettings, codec: int, pause: Pause
) -> Refusal | RecordsRefused | None:
    if "compact" in settings.cleanup_policy:
        return refusal_of_keys(batch, pause)
    fits = records_tile(batch, pause) if codec == NO_COMPRESSION else has_room(batch, codec)
    return None if fits else Refusal(ErrorCode.INVALID_RECORD)


def has_room(batch: RecordBatch, codec: int) -> bool:
    """Returns True if the compressed bytes can contain as many records as the header claims."""
    inflated_bytes_max = (batch.size_bytes - HEADER_BYTES) * INFLATION_MAX[codec]
    return batch.record_count * RECORD_BYTES_MIN <= min(inflated_bytes_max, DECOMPRESSED_BYTES_MAX)


def refusal_of_keys(batch: RecordBatch, pause: Pause) -> Refusal | RecordsRefused | None:
    """Refuses records without a key in a compacted topic."""
    try:
        without = keyless_records(batch, batch.unpacked(), pause)
    except CorruptBatch as error:
        return unreadable(error)
    if not without:
        return None
    return RecordsRefused(
        ErrorCode.INVALID_RECORD, "Records of a compacted topic must have a key.", without
    )


def is_in_codec(codec: int, compression_type: str) -> bool:
    return compression_type == AS_PRODUCED or CODECS[compression_type] == codec


def in_codec(batch: RecordBatch, compression_type: str, pause: Pause = no_pause) -> RecordBatch:
    """Recompresses a batch with another codec. Raises `CorruptBatch` if it cannot be unpacked."""
    target = CODECS[compression_type]
    if batch.compression is target:
        return batch
    payload = validate_contents(batch, pause=pause)
    return RecordBatch.parse(memoryview(bytearray(recompress(batch, target, payload))))
