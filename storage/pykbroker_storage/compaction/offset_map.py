"""Maps each key to its last offset, in a hash table of fixed size for keys of any length.

A key is identified by 128 bits of hashes, so collisions are practically impossible. The hashes
are salted, so that clients cannot choose colliding keys.
"""

import os

HASHES_BYTES = 16
ENTRY_BYTES = HASHES_BYTES + 8
SALT_BYTES = 16
# Above this load, probing takes too many steps.
LOAD_MAX = 0.75
SIZE_BYTES_MIN = 16 * ENTRY_BYTES


class OffsetMap:
    """The hash table. `latest_offset` is that of the last record read, with or without a key."""

    __slots__ = (
        "_offsets",
        "_one",
        "_other",
        "_salt",
        "_slots",
        "count",
        "count_max",
        "latest_offset",
    )

    def __init__(self, size_bytes: int) -> None:
        self._slots = _prime_at_most(size_bytes // ENTRY_BYTES)
        self._one = memoryview(bytearray(8 * self._slots)).cast("q")
        self._other = memoryview(bytearray(8 * self._slots)).cast("q")
        # Offset plus one; 0 marks an empty slot.
        self._offsets = memoryview(bytearray(8 * self._slots)).cast("q")
        self._salt = os.urandom(SALT_BYTES)
        self.count = 0
        self.count_max = max(1, int(self._slots * LOAD_MAX))
        self.latest_offset = -1

    @property
    def share_used(self) -> float:
        return self.count / self.count_max

    def put(self, key: bytes, offset: int) -> bool:
        """Stores the offset of a key; returns False if the key is new and the table is full."""
        # Python's SipHash of bytes is fast and salted per process. It has 64 bits, which is too
        # few for millions of keys, so a second salted hash is added.
        one, other = hash(key), hash(self._salt + key)
        slots, offsets, ones = self._slots, self._offsets, self._one
        slot, step = one % slots, 0
        while offsets[slot]:
            if ones[slot] == one and self._other[slot] == other:
                offsets[slot] = offset + 1
                return True
            step = step or 1 + other % (slots - 1)
            slot = (slot + step) % slots
        if self.count >= self.count_max:
            return False
        ones[slot] = one
        self._other[slot] = other
        offsets[slot] = offset + 1
        self.count += 1
        return True

    def get(self, key: bytes) -> int:
        """Returns the last offset of a key; -1 if the key is unknown."""
        one, other = hash(key), hash(self._salt + key)
        slots, offsets, ones = self._slots, self._offsets, self._one
        slot, step = one % slots, 0
        while offsets[slot]:
            if ones[slot] == one and self._other[slot] == other:
                break
            step = step or 1 + other % (slots - 1)
            slot = (slot + step) % slots
        return offsets[slot] - 1


def size_for(keys: int, size_bytes_max: int) -> int:
    """Returns the table size in bytes for this number of keys, at most `size_bytes_max`."""
    roomy = int(keys / LOAD_MAX) + 16
    return min(roomy * ENTRY_BYTES, max(size_bytes_max, SIZE_BYTES_MIN))


def _prime_at_most(limit: int) -> int:
    """Returns a prime number of slots, so that every step size visits all slots."""
    assert limit >= 3, f"a table of {limit} slots is too small"
    candidate = limit if limit % 2 else limit - 1
    while any(candidate % divisor == 0 for divisor in range(3, int(candidate**0.5) + 1, 2)):
        candidate -= 2
    return candidate
