"""Internal topics of Kafka, and the mapping of group and transactional ids to partitions."""

from __future__ import annotations

from functools import lru_cache

CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
SHARE_GROUP_STATE = "__share_group_state"

_NAMES = frozenset((CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE))


def is_internal(topic: str) -> bool:
    return topic in _NAMES


NAMES_CACHED_MAX = 1024
ABS_OVERFLOW = 1 << 31
"""Java cannot negate -2^31 in 32 bits; Kafka uses 0 instead."""


@lru_cache(NAMES_CACHED_MAX)
def partition_of_name(name: str, partition_count: int) -> int:
    """Returns the partition of a group or transactional id: its Java string hash modulo count."""
    magnitude = abs(java_hash(name))
    return 0 if magnitude == ABS_OVERFLOW else magnitude % partition_count


def java_hash(text: str) -> int:
    """Returns `String.hashCode` of Java: a signed 32-bit integer."""
    hash_code = 0
    for unit in utf16_units(text):
        hash_code = (31 * hash_code + unit) & 0xFFFFFFFF
    return hash_code - (1 << 32) if hash_code >> 31 else hash_code


def utf16_units(text: str) -> list[int]:
    encoded = text.encode("utf-16-be", "surrogatepass")
    return [encoded[at] << 8 | encoded[at + 1] for at in range(0, len(encoded), 2)]
