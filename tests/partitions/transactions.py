"""A partition with real files, and batches of transactional producers."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pykbroker.partitions.leadership import Leadership
from pykbroker.partitions.partition import Partition
from pykbroker.partitions.partition_registry import log_configuration
from pykbroker.settings import load_settings, resolve_topic
from pykbroker_protocol.errors import Refusal
from pykbroker_protocol.records.batch import SEQUENCE_MAX, RecordBatch
from pykbroker_protocol.records.builder import BatchBuilder
from pykbroker_storage.log import AppendResult
from tests.partitions.reading import AtOnce
from tests.storage.batches import NOW, open_log

PRODUCER, OTHER = 7, 8


@contextmanager
def open_partition(
    folder: Path,
    *,
    was_clean: bool = True,
    log_start_offset: int = 0,
    in_sync: tuple[int, ...] = (1,),
    **overrides: str,
) -> Iterator[Partition]:
    """Opens the partition in a folder; abandons it at the end like a crash."""
    texts = {name.replace("_", "."): value for name, value in overrides.items()}
    settings = resolve_topic(load_settings(), texts)
    log = open_log(
        folder,
        log_configuration(settings),
        was_clean=was_clean,
        log_start_offset=log_start_offset,
    )
    partition = Partition(
        topic="t",
        index=0,
        topic_id=bytes(16),
        node_id=1,
        log=log,
        leadership=Leadership(
            leader=1, leader_epoch=0, partition_epoch=0, replicas=(1, 2), in_sync=in_sync
        ),
        settings=settings,
        high_watermark=log.log_end_offset,
        off_loop=AtOnce(),
    )
    try:
        yield partition
    finally:
        log.abandon()


def transactional_batch(
    *values: bytes,
    producer_id: int = PRODUCER,
    producer_epoch: int = 0,
    base_sequence: int = 0,
    is_transactional: bool = True,
) -> RecordBatch:
    builder = BatchBuilder(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        is_transactional=is_transactional,
    )
    for value in values:
        builder.append(NOW, None, value)
    return RecordBatch.parse(memoryview(bytearray(builder.build())))


def join(
    partition: Partition,
    *,
    producer_id: int = PRODUCER,
    producer_epoch: int = 0,
    base_sequence: int = SEQUENCE_MAX,
) -> None:
    joining = partition.leader.joining.ask(
        producer_id, producer_epoch, base_sequence, begins_at_zero=False, now_ms=NOW
    )
    partition.leader.joining.answered(producer_id, joining, has_joined=True)


def write(
    partition: Partition,
    *values: bytes,
    producer_id: int = PRODUCER,
    producer_epoch: int = 0,
    base_sequence: int = 0,
    joins: bool = True,
) -> AppendResult | Refusal:
    """Appends one batch of a transaction that is open or verified."""
    batch = transactional_batch(
        *values,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )
    if joins and not partition.log.producers.is_in_transaction(producer_id, producer_epoch):
        join(partition, producer_id=producer_id, producer_epoch=producer_epoch)
    return partition.leader.write_once(batch, NOW)


def end(
    partition: Partition,
    *,
    committed: bool,
    producer_id: int = PRODUCER,
    producer_epoch: int = 0,
    coordinator_epoch: int = 0,
    transaction_version: int = 1,
) -> AppendResult | Refusal:
    return partition.leader.write_marker(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        coordinator_epoch=coordinator_epoch,
        committed=committed,
        transaction_version=transaction_version,
        now_ms=NOW,
    )
