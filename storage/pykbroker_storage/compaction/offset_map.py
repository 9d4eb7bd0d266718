"""Remembers of each key the last offset, in a table of a fixed size whatever the keys are.

A key is known by 16 bytes of its hash: that two of a log's keys share them will not happen. The
hash is salted, so that nobody can choose keys that crowd into one place.
"""

import os
from hashlib import blake2b

HASH_BYTES = 16
ENTRY_BYTES = HASH_BYTES + 8
SALT_BYTES = blake2b.SALT_SIZE
# Fuller than this, looking for a place takes too many steps.
LOAD_MAX = 0.9
SIZE_BYTES_MIN = 16 * ENTRY_BYTES


class OffsetMap:
    """`latest_offset` is that of the last record noted, with a key or without."""

    __slots__ = ("_hashes", "_offsets", "_salt", "_slots", "count", "count_max", "latest_offset")

    def __init__(self, size_bytes: int, *, salt: bytes | None = None) -> None:
        self._slots = _prime_at_most(size_bytes // ENTRY_BYTES)
        self._hashes = bytearray(HASH_BYTES * self._slots)
        # One more than the offset; 0 is an empty place.
        self._offsets = memoryview(bytearray(8 * self._slots)).cast("q")
        self._salt = os.urandom(SALT_BYTES) if salt is None else salt
        self.count = 0
        self.count_max = max(1, int(self._slots * LOAD_MAX))
        self.latest_offset = -1

    @property
    def is_full(self) -> bool:
        """Whether there may be no room for another key; those it has can still be moved on."""
        return self.count >= self.count_max

    def put(self, key: bytes, offset: int) -> bool:
        """Notes the offset as the key's last; False if the key is new and the table full."""
        digest = blake2b(key, digest_size=HASH_BYTES, salt=self._salt).digest()
        slot = self._find(digest)
        if not self._offsets[slot]:
            if self.count >= self.count_max:
                return False
            self._hashes[slot * HASH_BYTES : (slot + 1) * HASH_BYTES] = digest
            self.count += 1
        self._offsets[slot] = offset + 1
        return True

    def get(self, key: bytes) -> int:
        """The key's last offset; -1 if it was not noted."""
        digest = blake2b(key, digest_size=HASH_BYTES, salt=self._salt).digest()
        return self._offsets[self._find(digest)] - 1

    def _find(self, digest: bytes) -> int:
        """The place of a hash, or the empty one where it belongs: double hashing."""
        slots, offsets, hashes = self._slots, self._offsets, self._hashes
        number = int.from_bytes(digest, "big")
        slot = number % slots
        step = 0
        while offsets[slot]:
            start = slot * HASH_BYTES
            if hashes[start : start + HASH_BYTES] == digest:
                break
            if not step:
                step = 1 + (number >> 64) % (slots - 1)
            slot = (slot + step) % slots
        return slot


def size_for(keys: int, size_bytes_max: int) -> int:
    """The bytes of a table for so many keys, or as many as are allowed."""
    roomy = int(keys / LOAD_MAX * 1.2) + 16
    return min(roomy * ENTRY_BYTES, max(size_bytes_max, SIZE_BYTES_MIN))


def _prime_at_most(limit: int) -> int:
    """With a prime number of places every step visits all of them."""
    assert limit >= 3, f"a table of {limit} places is too small to be of use"
    candidate = limit if limit % 2 else limit - 1
    while any(candidate % divisor == 0 for divisor in range(3, int(candidate**0.5) + 1, 2)):
        candidate -= 2
    return candidate
