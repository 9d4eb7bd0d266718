"""Reads a partition like a fetch: from memory if possible, else from the disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pykbroker.partitions.disk_reads import read_from_disk
from pykbroker.partitions.isolation import Isolation, Reader
from pykbroker.partitions.off_loop import OffLoop
from pykbroker.partitions.reading import read as read_cached
from pykbroker_storage.filesystem import NotCached

if TYPE_CHECKING:
    from collections.abc import Callable

    from pykbroker.partitions.partition import Partition
    from pykbroker.partitions.reading import Fetched
    from pykbroker_protocol.errors import Refusal

T = TypeVar("T")


class AtOnce(OffLoop):
    """Runs the work of its threads at once."""

    def __init__(self) -> None:
        super().__init__(disk_threads_max=1, bytes_held_max=1 << 20)

    async def read(self, work: Callable[[], T]) -> T:
        return work()

    async def search(self, work: Callable[[Callable[[], None]], T]) -> T:
        return work(lambda: None)

    inspect = search


def read(
    partition: Partition,
    offset: int = 0,
    *,
    bytes_max: int = 10_000,
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
    reader: Reader = Reader.CONSUMER,
) -> Fetched | Refusal:
    try:
        return read_cached(
            partition,
            offset,
            bytes_max=bytes_max,
            isolation=isolation,
            first_batch_whole=True,
            reader=reader,
        )
    except NotCached:
        reading = read_from_disk(
            partition,
            offset,
            bytes_max=bytes_max,
            isolation=isolation,
            first_batch_whole=True,
            reader=reader,
        )
    assert isinstance(partition.off_loop, AtOnce)
    try:
        reading.send(None)
    except StopIteration as done:
        found: Fetched | Refusal = done.value
        return found
    raise AssertionError("it has waited")
