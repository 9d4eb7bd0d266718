"""Batches that are inspected in a thread keep their order among other batches."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

import pytest

from pykbroker.partitions.admission import PARSED_ON_LOOP_MAX, RecordsRefused
from pykbroker.partitions.off_loop import OffLoop
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.records.builder import BatchBuilder
from pykbroker_protocol.records.compression import Compression
from pykbroker_storage.log import AppendResult
from tests.storage.batches import NOW

if TYPE_CHECKING:
    from collections.abc import Callable

    from pykbroker.partitions.leader import Appending
    from pykbroker.partitions.partition import Partition
    from tests.partitions.local_partitions import LocalPartitions

T = TypeVar("T")
MANY = PARSED_ON_LOOP_MAX + 1


class Gate(OffLoop):
    """Runs the work of threads when the gate opens, in reverse order."""

    def __init__(self) -> None:
        super().__init__(disk_threads_max=1, bytes_held_max=1)
        self.waiting: list[asyncio.Event] = []

    async def inspect(self, work: Callable[[Callable[[], None]], T]) -> T:
        done = asyncio.Event()
        self.waiting.append(done)
        await done.wait()
        return work(lambda: None)

    async def open(self) -> None:
        await asyncio.sleep(0)  # started work reaches the gate
        for done in reversed(self.waiting):
            done.set()
            await asyncio.sleep(0)


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def partition(local: LocalPartitions, gate: Gate) -> Partition:
    partition = local.add("compacted")
    partition.off_loop = gate
    return partition


def append(
    partition: Partition,
    records: int,
    *,
    key: bytes | None = b"k",
    producer_id: int = -1,
    base_sequence: int = -1,
    compression: Compression = Compression.NONE,
) -> AppendResult | Refusal | RecordsRefused | Appending:
    builder = BatchBuilder(
        compression=compression,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=base_sequence,
    )
    for _ in range(records):
        builder.append(NOW, key, b"v")
    return partition.leader.append(
        memoryview(bytearray(builder.build())), required_acks=1, produce_version=9, now_ms=NOW
    )


async def written(*appending: AppendResult | Refusal | RecordsRefused | Appending) -> list[object]:
    return [await it if isinstance(it, asyncio.Task) else it for it in appending]


async def test_batches_are_appended_in_order_of_arrival(partition: Partition, gate: Gate) -> None:
    batches = [append(partition, count) for count in (MANY, 1, MANY, 2)]
    assert all(isinstance(it, asyncio.Task) for it in batches)
    assert partition.log.log_end_offset == 0
    await gate.open()
    found = await written(*batches)
    assert [it.first_offset for it in found if isinstance(it, AppendResult)] == [
        0, MANY, MANY + 1, 2 * MANY + 1,
    ]  # fmt: skip
    assert isinstance(append(partition, 1), AppendResult)  # no batch is pending


async def test_only_the_end_of_the_last_pending_batch_lets_appends_run_at_once(
    partition: Partition, gate: Gate
) -> None:
    first, last = append(partition, MANY), append(partition, MANY)
    await asyncio.sleep(0)
    gate.waiting[0].set()
    await written(first)
    assert isinstance(append(partition, 1), asyncio.Task), "the last batch is still pending"
    await gate.open()
    pending = partition.leader.last_appending
    await written(last, *([] if pending is None else [pending]))
    assert isinstance(append(partition, 1), AppendResult)


async def test_sequence_numbers_are_checked_in_order_of_arrival(
    partition: Partition, gate: Gate
) -> None:
    first = append(partition, MANY, producer_id=7, base_sequence=0)
    second = append(partition, 1, producer_id=7, base_sequence=MANY)
    again = append(partition, MANY, producer_id=7, base_sequence=0)
    await gate.open()
    found = await written(first, second, again)
    assert [it.first_offset for it in found if isinstance(it, AppendResult)] == [0, MANY, 0]


async def test_a_refused_batch_does_not_block_later_batches(
    partition: Partition, gate: Gate
) -> None:
    keyless = append(partition, MANY, key=None)
    good = append(partition, 1)
    await gate.open()
    refused, accepted = await written(keyless, good)
    assert isinstance(refused, RecordsRefused)
    assert refused.code == ErrorCode.INVALID_RECORD
    assert len(refused.indexes) == 1000
    assert isinstance(accepted, AppendResult)
    assert accepted.first_offset == 0


async def test_an_inspection_that_raises_does_not_block_later_batches(
    partition: Partition, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pykbroker.partitions.leader.inspect", None)
    broken, good = append(partition, MANY), append(partition, 1)
    await gate.open()
    with pytest.raises(TypeError):
        await written(broken)
    assert isinstance((await written(good))[0], AppendResult)


async def test_a_batch_for_a_topic_deleted_during_inspection_gets_unknown_topic(
    partition: Partition, gate: Gate
) -> None:
    appending = append(partition, MANY)
    partition.log.close()
    await gate.open()
    assert await written(appending) == [Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]


async def test_records_are_appended_after_their_request_is_cancelled(
    partition: Partition, gate: Gate
) -> None:
    append(partition, MANY)
    assert partition.leader.last_appending is not None
    waiting = asyncio.shield(partition.leader.last_appending)
    await asyncio.sleep(0)
    waiting.cancel()
    await gate.open()
    assert partition.log.log_end_offset == MANY


async def test_pending_inspections_end_with_the_broker(partition: Partition, gate: Gate) -> None:
    batches = [append(partition, MANY), append(partition, 1)]
    await asyncio.sleep(0)
    await gate.close()
    assert all(isinstance(it, asyncio.Task) and it.cancelled() for it in batches)


@pytest.mark.parametrize("compression", list(Compression))
async def test_an_inspected_batch_gets_the_codec_of_its_topic(
    local: LocalPartitions, gate: Gate, compression: Compression
) -> None:
    partition = local.add("packed", cleanup_policy="delete", compression_type="gzip")
    partition.off_loop = gate
    appending = append(partition, 30_000, compression=compression)
    assert isinstance(appending, asyncio.Task) == (compression is not Compression.GZIP)
    await gate.open()
    (found,) = await written(appending)
    assert isinstance(found, AppendResult)
    assert found.last_offset == 29_999
    batch = partition.log.segments()[0].batch_at(0)
    assert batch.compression is Compression.GZIP
    assert sum(1 for _ in batch.records()) == 30_000
