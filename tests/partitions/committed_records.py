"""Reads a partition like a read_committed consumer, fetch after fetch, without aborted records."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from pykbroker.partitions.isolation import Isolation
from pykbroker.partitions.reading import Fetched
from pykbroker_protocol.records.batch import iterate_batches
from pykbroker_protocol.records.control import decode_marker
from tests.partitions.reading import read

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

    from pykbroker.partitions.partition import Partition
    from pykbroker_protocol.records.record import Record


def committed_records(partition: Partition, offset: int, chance: Random) -> Iterator[Record]:
    while True:
        found = read(
            partition,
            offset,
            bytes_max=chance.choice((1, 300, 3000)),
            isolation=Isolation.READ_COMMITTED,
        )
        assert isinstance(found, Fetched)
        if not found.records:
            return
        for record in without_aborted(found):
            if record.offset >= offset:
                yield record
        *_, last = iterate_batches(found.records)
        offset = last.next_offset


def without_aborted(found: Fetched) -> Iterator[Record]:
    """Applies the aborted transactions of one fetch; each fetch reports its own."""
    coming = deque(sorted(found.aborted or (), key=lambda it: it.first_offset))
    aborted: set[int] = set()
    for batch in iterate_batches(found.records):
        while coming and coming[0].first_offset <= batch.last_offset:
            aborted.add(coming.popleft().producer_id)
        if batch.is_control:
            for record in batch.records():
                marker = decode_marker(record.key, record.value)
                if marker is not None and not marker.is_commit:
                    aborted.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in aborted):
            yield from batch.records()
