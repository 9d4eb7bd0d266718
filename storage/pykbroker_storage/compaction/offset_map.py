"""Remembers of each key the last offset, in a table of a fixed size whatever the keys are.

A key is known by 128 bits of hashes: that two of a log's keys share them will not happen. They
are salted, so that nobody can choose keys that crowd into one place.
"""

import os

HASHES_BYTES = 16
ENTRY_BYTES = HASHES_BYTES + 8
SALT_BYTES = 16
# Fuller than this, looking for a place takes too many steps.
LOAD_MAX = 0.75
SIZE_BYTES_MIN = 16 * ENTRY_BYTES


class OffsetMap:
    """`latest_offset` is that of the last record noted, with a key or without."""

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
        # One more than the offset; 0 is an empty place.
        self._offsets = memoryview(bytearray(8 * self._slots)).cast("q")
        self._salt = os.urandom(SALT_BYTES)
        self.count = 0
        self.count_max = max(1, int(self._slots * LOAD_MAX))
        self.latest_offset = -1

    @property
    def share_used(self) -> float:
        return self.count / self.count_max

    def put(self, key: bytes, offset: int) -> bool:
        """Notes the offset as the key's last; False if the key is new and the table full."""
        # Python hashes bytes by SipHash under a secret of this process: quick, and no one foresees
        # it. One of them has 64 bits, which is too few for millions of keys.
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
        """The key's last offset; -1 if it was not noted."""
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
    """The bytes of a table for so many keys, or as many as are allowed."""
    roomy = int(keys / LOAD_MAX) + 16
    return min(roomy * ENTRY_BYTES, max(size_bytes_max, SIZE_BYTES_MIN))


def _prime_at_most(limit: int) -> int:
    """With a prime number of places every step visits all of them."""
    assert limit >= 3, f"a table of {limit} places is too small to be of use"
    candidate = limit if limit % 2 else limit - 1
    while any(candidate % divisor == 0 for divisor in range(3, int(candidate**0.5) + 1, 2)):
        candidate -= 2
    return candidate
