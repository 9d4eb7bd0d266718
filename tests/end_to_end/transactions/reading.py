"""A read_committed consumer without a client library."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any

from pykbroker_protocol.records.batch import RecordBatch, iterate_batches
from tests.apis.request_builders import fetched, from_partition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.apis.wire import Wire

READ_COMMITTED = 1
FETCH_VERSION = 11


def committed_values(wire: Wire, topic: str, partition: int) -> list[bytes]:
    """Returns all values below the last stable offset whose transaction was not aborted."""
    values: list[bytes] = []
    offset = 0
    while True:
        place = from_partition(offset, topic=topic, partition=partition)
        answer = wire.ask(fetched(place, isolation_level=READ_COMMITTED), FETCH_VERSION)
        (found,) = answer.responses[0].partitions
        assert not found.error_code, found
        batches = list(iterate_batches(bytes(found.records or b"")))
        if not batches:
            return values
        values += without_aborted(found)
        offset = batches[-1].next_offset


def without_aborted(found: Any) -> Iterable[bytes]:
    """Skips records of aborted producers from the first offset to the marker, like clients."""
    begins: dict[int, deque[int]] = defaultdict(deque)
    for it in found.aborted_transactions or ():
        begins[it.producer_id].append(it.first_offset)
    for batch in iterate_batches(bytes(found.records or b"")):
        of_producer = begins[batch.producer_id]
        is_aborted = bool(of_producer) and of_producer[0] <= batch.base_offset
        if batch.is_control:
            if is_aborted:
                of_producer.popleft()
        elif not is_aborted:
            yield from values_of(batch)


def values_of(batch: RecordBatch) -> Iterable[bytes]:
    for record in batch.records():
        assert record.value is not None
        yield bytes(record.value)
