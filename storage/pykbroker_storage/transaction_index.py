"""The aborted transactions of a segment: its `.txnindex` file, in Kafka's format.

A transaction is listed in the segment that contains its marker, in the order of the markers.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from struct import Struct
from typing import NamedTuple, Self

from pykbroker_storage.filesystem import FileSystem, read_file, write_fully

TRANSACTION_INDEX_SUFFIX = ".txnindex"
TRANSACTION_INDEX_VERSION = 0
# version, producer id, first offset, last offset, last stable offset:
# `formats.TRANSACTION_INDEX_ENTRY`, read here without `construct`
_ENTRY = Struct(">hqqqq")
_LAST_OFFSET = Struct(">18xq")


class MalformedTransactionIndex(ValueError):
    """The bytes are not a valid transaction index; it can be rebuilt from the log."""


class AbortedTransaction(NamedTuple):
    """An aborted transaction, from its first record to its marker at `last_offset`."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int  # last stable offset directly after the marker was appended


class TransactionIndex:
    """The encoded entries of one segment; decoded on access."""

    __slots__ = ("_entries", "_saved_bytes")

    def __init__(self, entries: bytes = b"") -> None:
        """Raises `MalformedTransactionIndex`."""
        if len(entries) % _ENTRY.size:
            raise MalformedTransactionIndex(
                f"index size {len(entries)} is not a multiple of {_ENTRY.size}"
            )
        if any(entries[:: _ENTRY.size]) or any(entries[1 :: _ENTRY.size]):
            raise MalformedTransactionIndex("an index entry has an unknown version")
        self._entries = bytearray(entries)
        self._saved_bytes = len(entries)

    @classmethod
    def read(cls, filesystem: FileSystem, path: str) -> Self:
        """Reads an index file; a missing file is an empty index.

        Raises `MalformedTransactionIndex`.
        """
        try:
            return cls(read_file(filesystem, path))
        except FileNotFoundError:
            return cls()

    def __len__(self) -> int:
        return len(self._entries) // _ENTRY.size

    def __iter__(self) -> Iterator[AbortedTransaction]:
        for _, producer_id, first, last, stable in _ENTRY.iter_unpack(bytes(self._entries)):
            yield AbortedTransaction(producer_id, first, last, stable)

    def copy(self) -> "TransactionIndex":
        return TransactionIndex(bytes(self._entries))

    def append(self, transaction: AbortedTransaction) -> None:
        self._entries += encode_aborted((transaction,))

    def collect(self, start_offset: int, end_offset: int, found: list[AbortedTransaction]) -> bool:
        """Adds the transactions with records between the offsets to `found`.

        Returns False if the following segments may list more of them: a transaction that
        overlaps the range can end after `end_offset`.
        """
        entries = memoryview(self._entries)[self._count_before(start_offset) * _ENTRY.size :]
        for _, producer_id, first, last, stable in _ENTRY.iter_unpack(entries):
            if first < end_offset:
                found.append(AbortedTransaction(producer_id, first, last, stable))
            if stable >= end_offset:
                return True  # every transaction that ends later begins at or after `end_offset`
        return False

    def _count_before(self, offset: int) -> int:
        """Counts the transactions whose marker is below this offset."""
        return bisect_left(range(len(self)), offset, key=self._last_offset)

    def _last_offset(self, number: int) -> int:
        (last_offset,) = _LAST_OFFSET.unpack_from(self._entries, number * _ENTRY.size)
        return int(last_offset)

    def to_bytes(self) -> bytes:
        return bytes(self._entries)

    @property
    def is_saved(self) -> bool:
        return self._saved_bytes == len(self._entries)

    def save(self, filesystem: FileSystem, path: str) -> None:
        """Appends unsaved entries to the file."""
        if self.is_saved:
            return
        descriptor = filesystem.open(path)
        try:
            rest = bytes(self._entries[self._saved_bytes :])
            write_fully(filesystem, descriptor, rest, self._saved_bytes)
        finally:
            filesystem.close(descriptor)
        self._saved_bytes = len(self._entries)


def encode_aborted(transactions: Iterable[AbortedTransaction]) -> bytes:
    return b"".join(_ENTRY.pack(TRANSACTION_INDEX_VERSION, *it) for it in transactions)


def decode_aborted(data: bytes) -> list[AbortedTransaction]:
    """Raises `MalformedTransactionIndex`."""
    return list(TransactionIndex(data))
