"""Every binary layout that lies on disk, declared byte by byte; all are Kafka's own.

For reading and explaining at leisure: whoever serves requests unpacks the same bytes with
`struct` (importing `construct` alone takes longer than a start may). Tests hold both together.
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

# Opens every batch of a `.log` file. The length counts what follows it, the CRC covers what
# follows it; base offset and leader epoch stay outside of it, so that a leader can stamp them.
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

# `.index`: an offset, less the segment's base offset, and where in the `.log` its batch starts.
OFFSET_INDEX_ENTRY = Struct(
    "relative_offset" / Int32sb,
    "position" / Int32sb,
)

# `.timeindex`: the greatest timestamp up to an offset, less the segment's base offset.
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

# `.snapshot`: the CRC covers everything behind it; -1 stands for what there is not.
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
