"""A record batch (magic 2) as a view of its encoded bytes.

The header is parsed by one `struct` call. Records are decoded only on request.

     0  base offset            i64 |  27  base timestamp   i64
     8  length of the rest     i32 |  35  max timestamp    i64
    12  partition leader epoch i32 |  43  producer id      i64
    16  magic                  i8  |  51  producer epoch   i16
    17  crc of bytes 21..end   u32 |  53  base sequence    i32
    21  attributes             i16 |  57  record count     i32
    23  last offset delta      i32 |  61  records, compressed together
"""

from collections.abc import Iterator
from enum import IntEnum
from struct import Struct
from typing import Self

from pykbroker_protocol.records.buffers import Bytes
from pykbroker_protocol.records.compression import (
    DECOMPRESSED_BYTES_MAX,
    Compression,
    decompress,
    unpack,
)
from pykbroker_protocol.records.corrupt import CorruptBatch, TruncatedBatch
from pykbroker_protocol.records.crc32c import checksum
from pykbroker_protocol.records.record import Record, read_records

MAGIC = 2
HEADER_BYTES = 61
PREFIX_BYTES = 12  # base offset and length; the length field does not include them
LENGTH_AT = 8
CRC_AT = 17
CHECKED_FROM = 21  # the first byte that the CRC covers
MAX_TIMESTAMP_AT = 35
PRODUCER_AT = 43

COMPRESSION_MASK = 0x07
LOG_APPEND_TIME_FLAG = 0x08
TRANSACTIONAL_FLAG = 0x10
CONTROL_FLAG = 0x20
DELETE_HORIZON_FLAG = 0x40

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1
NO_LEADER_EPOCH = -1
SEQUENCE_MAX = 2**31 - 1

_HEADER = Struct(">qiibIhiqqqhii")
_PRODUCER = Struct(">qhi")
_I64 = Struct(">q")
_I32 = Struct(">i")
_U32 = Struct(">I")
_I16 = Struct(">h")
_PREFIX_AND_LEADER_EPOCH = Struct(">qii")


class TimestampType(IntEnum):
    """The source of the timestamps of a batch: the producer or the broker."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class RecordBatch:
    """One complete batch; `view` keeps the underlying buffer alive as long as the batch exists."""

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "crc",
        "last_offset_delta",
        "magic",
        "max_timestamp",
        "partition_leader_epoch",
        "producer_epoch",
        "producer_id",
        "record_count",
        "size_bytes",
        "view",
    )

    base_offset: int
    size_bytes: int  # includes base offset and length
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    view: memoryview

    @classmethod
    def parse(cls, buffer: Bytes, position: int = 0) -> Self:
        """Parses the batch at `position`; raises `CorruptBatch` if it is invalid.

        The CRC is not checked; callers that need it call `is_crc_valid`.
        """
        available = len(buffer) - position
        if available < HEADER_BYTES:
            raise TruncatedBatch(
                f"batch header needs {HEADER_BYTES} bytes, only {available} remain"
            )
        batch = cls()
        (
            batch.base_offset,
            length,
            batch.partition_leader_epoch,
            batch.magic,
            batch.crc,
            batch.attributes,
            batch.last_offset_delta,
            batch.base_timestamp,
            batch.max_timestamp,
            batch.producer_id,
            batch.producer_epoch,
            batch.base_sequence,
            batch.record_count,
        ) = _HEADER.unpack_from(buffer, position)
        if batch.magic != MAGIC:
            raise CorruptBatch(f"magic {batch.magic} is not supported, only {MAGIC}")
        batch.size_bytes = size = length + PREFIX_BYTES
        if size < HEADER_BYTES:
            raise CorruptBatch(f"length {length} is shorter than a batch header")
        if size > available:
            raise TruncatedBatch(f"batch has {size} bytes, only {available} remain")
        if batch.last_offset_delta < 0 or batch.record_count < 0:
            raise CorruptBatch(
                f"{batch.record_count} records with last offset delta {batch.last_offset_delta}"
            )
        view = buffer if isinstance(buffer, memoryview) else memoryview(buffer)
        batch.view = view if size == len(view) else view[position : position + size]
        return batch

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record; sequence numbers wrap from 2^31 - 1 to 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & SEQUENCE_MAX

    @property
    def compression(self) -> Compression:
        try:
            return Compression(self.attributes & COMPRESSION_MASK)
        except ValueError:
            code = self.attributes & COMPRESSION_MASK
            raise CorruptBatch(f"compression type {code} is not defined") from None

    @property
    def timestamp_type(self) -> TimestampType:
        if self.attributes & LOG_APPEND_TIME_FLAG:
            return TimestampType.LOG_APPEND_TIME
        return TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_FLAG)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_FLAG)

    @property
    def has_delete_horizon(self) -> bool:
        """True if the base timestamp is the delete horizon of tombstones (KIP-534)."""
        return bool(self.attributes & DELETE_HORIZON_FLAG)

    @property
    def is_dense(self) -> bool:
        """True if the batch has a record for every offset; compaction can remove records."""
        return self.record_count == self.last_offset_delta + 1

    @property
    def is_idempotent(self) -> bool:
        """True if the batch has a producer id, which the broker uses to reject duplicates."""
        return self.producer_id != NO_PRODUCER_ID

    def assign_offsets(self, base_offset: int, partition_leader_epoch: int) -> None:
        """Writes base offset and leader epoch into the bytes; the CRC does not cover them."""
        self.base_offset = base_offset
        self.partition_leader_epoch = partition_leader_epoch
        length = self.size_bytes - PREFIX_BYTES
        _PREFIX_AND_LEADER_EPOCH.pack_into(
            self.view, 0, base_offset, length, partition_leader_epoch
        )

    def is_crc_valid(self) -> bool:
        return checksum(self.view[CHECKED_FROM:]) == self.crc

    def payload(self, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> bytes:
        """Returns the uncompressed records as a copy, which does not keep the buffer alive."""
        return decompress(self.compression, self.view[HEADER_BYTES:], bytes_max)

    def unpacked(self) -> Bytes:
        """Returns the uncompressed records: a view of the batch, or the output of the codec."""
        data = self.view[HEADER_BYTES:]
        compression = self.compression
        return data if compression is Compression.NONE else unpack(compression, data)

    def records(self, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> Iterator[Record]:
        """Yields the records; raises `CorruptBatch` at the first invalid one."""
        appended_ms = (
            self.max_timestamp if self.timestamp_type is TimestampType.LOG_APPEND_TIME else None
        )
        return read_records(
            self.payload(bytes_max),
            self.record_count,
            base_offset=self.base_offset,
            base_timestamp=self.base_timestamp,
            log_append_time_ms=appended_ms,
        )

    def __repr__(self) -> str:
        return (
            f"<RecordBatch {self.base_offset}..{self.last_offset} "
            f"{self.record_count} records, {self.size_bytes} bytes>"
        )


def iterate_batches(buffer: Bytes) -> Iterator[RecordBatch]:
    """Yields the batches of a buffer that contains only complete ones."""
    position = 0
    end = len(buffer)
    while position < end:
        batch = RecordBatch.parse(buffer, position)
        yield batch
        position += batch.size_bytes


def producer_of(buffer: Bytes) -> tuple[int, int, int]:
    """Returns producer id, epoch and base sequence of the first batch without validating it."""
    producer_id, epoch, base_sequence = _PRODUCER.unpack_from(buffer, PRODUCER_AT)
    return producer_id, epoch, base_sequence


def encode_batch(
    payload: Bytes,
    *,
    attributes: int,
    base_offset: int,
    partition_leader_epoch: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    record_count: int,
) -> bytes:
    """Encodes a batch with a payload that is already compressed as `attributes` state."""
    batch = bytearray(HEADER_BYTES + len(payload))
    _HEADER.pack_into(
        batch,
        0,
        base_offset,
        len(batch) - PREFIX_BYTES,
        partition_leader_epoch,
        MAGIC,
        0,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    )
    batch[HEADER_BYTES:] = payload
    write_crc(batch)
    return bytes(batch)


def write_crc(batch: bytearray) -> None:
    """Computes the CRC of the batch and writes it into its header."""
    _U32.pack_into(batch, CRC_AT, checksum(memoryview(batch)[CHECKED_FROM:]))


def stamp_log_append_time(buffer: bytearray | memoryview, position: int, timestamp_ms: int) -> None:
    """Sets LogAppendTime and the append time of the batch at `position`."""
    view = memoryview(buffer)
    size = _I32.unpack_from(view, position + LENGTH_AT)[0] + PREFIX_BYTES
    (attributes,) = _I16.unpack_from(view, position + CHECKED_FROM)
    _I16.pack_into(view, position + CHECKED_FROM, attributes | LOG_APPEND_TIME_FLAG)
    _I64.pack_into(view, position + MAX_TIMESTAMP_AT, timestamp_ms)
    crc = checksum(view[position + CHECKED_FROM : position + size])
    _U32.pack_into(view, position + CRC_AT, crc)


def stamp_create_time(buffer: bytearray | memoryview, position: int) -> None:
    """Sets CreateTime for the batch at `position`; records keep the producer's timestamps."""
    view = memoryview(buffer)
    size = _I32.unpack_from(view, position + LENGTH_AT)[0] + PREFIX_BYTES
    (attributes,) = _I16.unpack_from(view, position + CHECKED_FROM)
    _I16.pack_into(view, position + CHECKED_FROM, attributes & ~LOG_APPEND_TIME_FLAG)
    crc = checksum(view[position + CHECKED_FROM : position + size])
    _U32.pack_into(view, position + CRC_AT, crc)
