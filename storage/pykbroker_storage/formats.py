"""Declares the binary layouts of all files in a partition directory; all are Kafka's own.

The declarations serve reading and explaining files. The broker unpacks the same bytes with
`struct`, because importing `construct` takes too long at startup. Tests compare both.
"""

from construct import (
    Array,
    Computed,
    Int8sb,
    Int16sb,
    Int32sb,
    Int32ub,
    Int64sb,
    Struct,
    this,
)

# Header of every batch in a `.log` file. The length counts the bytes after it. The CRC covers the
# bytes after it, so a leader can change base offset and leader epoch without a new CRC.
BATCH_HEADER = Struct(
    "base_offset" / Int64sb,
    "length" / Int32sb,
    "partition_leader_epoch" / Int32sb,
    "magic" / Int8sb,
    "crc" / Int32ub,
    "attributes" / Int16sb,
    "last_offset_delta" / Int32sb,
    "base_timestamp" / Int64sb,
    "max_timestamp" / Int64sb,
    "producer_id" / Int64sb,
    "producer_epoch" / Int16sb,
    "base_sequence" / Int32sb,
    "record_count" / Int32sb,
    "size_bytes" / Computed(this.length + 12),
    "last_offset" / Computed(this.base_offset + this.last_offset_delta),
)

# `.index`: an offset relative to the segment's base offset, and the `.log` position of its batch.
OFFSET_INDEX_ENTRY = Struct(
    "relative_offset" / Int32sb,
    "position" / Int32sb,
)

# `.timeindex`: the largest timestamp up to an offset, which is relative to the base offset.
TIME_INDEX_ENTRY = Struct(
    "timestamp" / Int64sb,
    "relative_offset" / Int32sb,
)

# `.txnindex`: one aborted transaction, from its first record to its marker.
TRANSACTION_INDEX_ENTRY = Struct(
    "version" / Int16sb,
    "producer_id" / Int64sb,
    "first_offset" / Int64sb,
    "last_offset" / Int64sb,
    "last_stable_offset" / Int64sb,
)

# `.snapshot`: the CRC covers all bytes after it; -1 means "none".
PRODUCER_ENTRY = Struct(
    "producer_id" / Int64sb,
    "producer_epoch" / Int16sb,
    "last_sequence" / Int32sb,
    "last_offset" / Int64sb,
    "offset_delta" / Int32sb,
    "timestamp" / Int64sb,
    "coordinator_epoch" / Int32sb,
    "transaction_first_offset" / Int64sb,
)
PRODUCER_SNAPSHOT = Struct(
    "version" / Int16sb,
    "crc" / Int32ub,
    "count" / Int32sb,
    "producers" / Array(this.count, PRODUCER_ENTRY),
)
