"""The topics a cluster keeps for itself."""

from __future__ import annotations

CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
SHARE_GROUP_STATE = "__share_group_state"

_NAMES = frozenset((CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE))


def is_internal(topic: str) -> bool:
    return topic in _NAMES


def partition_of_name(name: str, partition_count: int) -> int:
    """Where a group or a transactional id lives: by Java's hash of strings, as Apache has it."""
    hash_code = 0
    for unit in utf16_units(name):
        hash_code = (31 * hash_code + unit) & 0xFFFFFFFF
    return (hash_code & 0x7FFFFFFF) % partition_count


def utf16_units(text: str) -> list[int]:
    encoded = text.encode("utf-16-be", "surrogatepass")
    return [encoded[at] << 8 | encoded[at + 1] for at in range(0, len(encoded), 2)]
