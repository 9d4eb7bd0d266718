"""Which transactions of a segment were aborted: its `.txnindex` file, in Kafka's format.

A transaction stands in the segment that holds its marker. Entries are in order of the markers.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from struct import Struct

ABORTED_INDEX_SUFFIX = ".txnindex"
ABORTED_INDEX_VERSION = 0
# version, producer id, first offset, last offset, last stable offset:
# `formats.ABORTED_TRANSACTION_ENTRY`, read here without `construct`
_ENTRY = Struct(">hqqqq")


class MalformedAbortedIndex(ValueError):
    """The bytes are no index of aborted transactions; it can be rebuilt from the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortedTransaction:
    """From its first record to its marker, at `last_offset`."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int  # what a reader of committed records could see once it had ended


def encode_aborted(transactions: Iterable[AbortedTransaction]) -> bytes:
    return b"".join(
        _ENTRY.pack(
            ABORTED_INDEX_VERSION,
            it.producer_id,
            it.first_offset,
            it.last_offset,
            it.last_stable_offset,
        )
        for it in transactions
    )


def decode_aborted(data: bytes) -> list[AbortedTransaction]:
    """Raises `MalformedAbortedIndex`."""
    if len(data) % _ENTRY.size:
        raise MalformedAbortedIndex(f"{len(data)} bytes are no whole number of entries")
    transactions = []
    for version, producer_id, first, last, stable in _ENTRY.iter_unpack(data):
        if version != ABORTED_INDEX_VERSION:
            raise MalformedAbortedIndex(f"version {version} is unknown")
        transactions.append(
            AbortedTransaction(
                producer_id=producer_id,
                first_offset=first,
                last_offset=last,
                last_stable_offset=stable,
            )
        )
    return transactions
