"""Producer epochs and open transactions of the data partitions led here, after an unclean start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.coordination.transactions.outcome import Markers, TopicPartition
from pykbroker.coordination.transactions.reconciliation import ProducerOnPartitions
from pykbroker.slices import SLICE_ELEMENTS
from pykbroker_storage.producer import NO_OFFSET

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pykbroker.partitions.partition import Partition
    from pykbroker.partitions.partition_registry import Partitions
    from pykbroker.slices import Slices
    from pykbroker_storage.producer import Producer


class ProducerSurvey:
    """Producers found by the survey. Lookups check that their transactions are still open."""

    def __init__(self, partitions: Partitions) -> None:
        self._partitions = partitions
        self._epochs: dict[int, int] = {}
        self._open: dict[int, list[Partition]] = {}

    def taken(self) -> Slices[None]:
        count = 0
        for partition in self._partitions:
            if not partition.leads:
                continue
            count += 1
            for producer_id in partition.log.producers.ids():
                self._note(partition, producer_id)
                count += 1
                if count % SLICE_ELEMENTS == 0:
                    yield

    def _note(self, partition: Partition, producer_id: int) -> None:
        producer = partition.log.producers.get(producer_id)
        if producer is None:
            return
        self._epochs[producer_id] = max(producer.epoch, self._epochs.get(producer_id, -1))
        if producer.transaction_first_offset != NO_OFFSET:
            self._open.setdefault(producer_id, []).append(partition)

    def seen(self, producer_id: int) -> ProducerOnPartitions | None:
        epoch = self._epochs.get(producer_id)
        if epoch is None:
            return None
        open_at = {topic_partition: it.epoch for topic_partition, it in self._open_now(producer_id)}
        return ProducerOnPartitions(max(epoch, *open_at.values()) if open_at else epoch, open_at)

    def _open_now(self, producer_id: int) -> Iterator[tuple[TopicPartition, Producer]]:
        for partition in self._open.get(producer_id, ()):
            topic_partition = TopicPartition(partition.topic, partition.index)
            producer = partition.log.producers.get(producer_id)
            if producer is None or producer.transaction_first_offset == NO_OFFSET:
                continue
            if partition.leads and self._partitions.get(*topic_partition) is partition:
                yield topic_partition, producer

    @property
    def open_ids(self) -> list[int]:
        """Producers that had an open transaction at the time of the survey."""
        return list(self._open)

    def aborting_markers(self, producer_id: int) -> Markers | None:
        """Ends the open transactions of a producer id without a coordinator; fences its epoch."""
        found = list(self._open_now(producer_id))
        if not found:
            return None
        return Markers(
            transactional_id=f"unknown (producer {producer_id})",
            producer_id=producer_id,
            producer_epoch=max(it.epoch for _, it in found) + 1,
            coordinator_epoch=max(0, *(it.coordinator_epoch for _, it in found)),
            committed=False,
            transaction_version=0,
            partitions=tuple(sorted(topic_partition for topic_partition, _ in found)),
        )

    def keep_only(self, producer_ids: Iterable[int]) -> None:
        kept = set(producer_ids)
        self._epochs = {it: epoch for it, epoch in self._epochs.items() if it in kept}
        self._open = {it: partitions for it, partitions in self._open.items() if it in kept}

    def __bool__(self) -> bool:
        return bool(self._epochs)
