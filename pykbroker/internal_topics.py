"""The topics a cluster keeps for itself."""

from __future__ import annotations

from functools import lru_cache

CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
SHARE_GROUP_STATE = "__share_group_state"

_NAMES = frozenset((CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE))


def is_internal(topic: str) -> bool:
    return topic in _NAMES


NAMES_REMEMBERED = 1024
"""Of groups and transactional ids: the same ones are asked for again and again."""
NO_MAGNITUDE = 1 << 31
"""Of the least number there is no opposite in 32 bits; Kafka takes 0."""


@lru_cache(NAMES_REMEMBERED)
def partition_of_name(name: str, partition_count: int) -> int:
    """Where a group or a transactional id lives: by Java's hash of strings, as Apache has it."""
    magnitude = abs(java_hash(name))
    return 0 if magnitude == NO_MAGNITUDE else magnitude % partition_count


def java_hash(text: str) -> int:
    """A number of 32 bits, with a sign."""
    hash_code = 0
    for unit in utf16_units(text):
        hash_code = (31 * hash_code + unit) & 0xFFFFFFFF
    return hash_code - (1 << 32) if hash_code >> 31 else hash_code


def utf16_units(text: str) -> list[int]:
    encoded = text.encode("utf-16-be", "surrogatepass")
    return [encoded[at] << 8 | encoded[at + 1] for at in range(0, len(encoded), 2)]
