"""Maps record keys to partitions with murmur2, like the default partitioner of the Java client."""

from __future__ import annotations

from typing import Final

SEED: Final = 0x9747B28C
MULTIPLIER: Final = 0x5BD1E995
SHIFT: Final = 24
MASK: Final = 0xFFFFFFFF


def partition_of_key(key: bytes, partition_count: int) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


def murmur2(key: bytes) -> int:
    """Returns the 32-bit murmur2 hash with the seed that Kafka clients use."""
    size = len(key)
    whole = size & ~3
    mixed = (SEED ^ size) & MASK
    for position in range(0, whole, 4):
        word = int.from_bytes(key[position : position + 4], "little") * MULTIPLIER & MASK
        word = (word ^ (word >> SHIFT)) * MULTIPLIER & MASK
        mixed = (mixed * MULTIPLIER & MASK) ^ word
    if size > whole:
        mixed = (mixed ^ int.from_bytes(key[whole:], "little")) * MULTIPLIER & MASK
    mixed = (mixed ^ (mixed >> 13)) * MULTIPLIER & MASK
    return mixed ^ (mixed >> 15)
