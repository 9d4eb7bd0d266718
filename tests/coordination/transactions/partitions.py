"""A model of data partitions: records are pending until a marker commits or aborts them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pykbroker.coordination.transactions.outcome import Markers, TopicPartition
    from pykbroker.coordination.transactions.transaction import Producer

Token = int
"""One transaction as seen by its producer."""


class Fate(NamedTuple):
    place: TopicPartition
    token: Token
    committed: bool


class Partition:
    """Stores the batches of each producer id and rejects old epochs and coordinators."""

    def __init__(self, place: TopicPartition) -> None:
        self.place = place
        self.fates: list[Fate] = []
        self.open: dict[int, set[Token]] = {}
        self._epochs: dict[int, int] = {}
        self._coordinators: dict[int, int] = {}

    def write(self, producer: Producer, token: Token) -> None:
        if producer.epoch >= self._epochs.get(producer.id, 0):
            self._epochs[producer.id] = producer.epoch
            self.open.setdefault(producer.id, set()).add(token)

    def end(self, markers: Markers) -> None:
        producer_id, epoch = markers.producer_id, markers.producer_epoch
        if epoch < self._epochs.get(producer_id, 0):
            return
        if markers.coordinator_epoch < self._coordinators.get(producer_id, 0):
            return
        self._epochs[producer_id] = epoch
        self._coordinators[producer_id] = markers.coordinator_epoch
        for token in self.open.pop(producer_id, ()):
            self.fates.append(Fate(self.place, token, markers.committed))
