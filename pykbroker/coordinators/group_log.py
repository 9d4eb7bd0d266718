"""One partition of `__consumer_offsets`: groups, and offsets pending in transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.coordination.groups.outcome import OutcomeInTransaction
from pykbroker.coordination.groups.registry import Groups
from pykbroker.coordinators.coordinated_log import CoordinatedLog
from pykbroker.coordinators.records import record_types
from pykbroker_protocol.errors import Refusal
from pykbroker_protocol.internal_topics import classic_groups, consumer_groups, offsets
from pykbroker_protocol.records.builder import BatchBuilder
from pykbroker_protocol.records.control import decode_marker

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pykbroker.clock import Clock
    from pykbroker.coordination.groups.consumer_settings import ConsumerGroupSettings
    from pykbroker.coordination.groups.member_bytes import MemberBytes
    from pykbroker.coordination.groups.settings import GroupSettings
    from pykbroker.coordination.outcome import Outcome, Write
    from pykbroker.coordinators.coordinated_log import DecisionObserver
    from pykbroker.coordinators.topics_of_cluster import TopicsOfCluster
    from pykbroker.coordinators.turns import Turns
    from pykbroker.partitions.partition import Partition
    from pykbroker_protocol.records.batch import RecordBatch

GROUP_RECORDS = record_types(classic_groups, offsets, consumer_groups)

FIRST_SEQUENCE = 0
"""Kafka's group coordinator numbers the records of each batch from 0, for any producer."""


class GroupLog(CoordinatedLog[Groups]):
    """The runtime of groups; writes and replays transactional offsets as such."""

    def resign(self) -> None:
        super().resign()
        self.state.member_bytes.clear()

    def _replay_batch(self, batch: RecordBatch) -> Iterator[None]:
        if batch.is_control:
            self._replay_marker(batch)
            return
        for key, value in self._known_records(batch):
            if batch.is_transactional:
                self.state.replay_of_transaction(batch.producer_id, key, value)
            else:
                self.state.replay(key, value)
            yield

    def _replay_marker(self, batch: RecordBatch) -> None:
        for record in batch.records():
            marker = decode_marker(record.key, record.value)
            if marker is not None:
                self.state.transaction_ended(batch.producer_id, committed=marker.is_commit)

    def _replay_writes(self, outcome: Outcome, writes: Iterable[Write]) -> None:
        if not isinstance(outcome, OutcomeInTransaction):
            super()._replay_writes(outcome, writes)
            return
        for write in writes:
            self.state.replay_of_transaction(outcome.producer_id, write.key, write.value)

    def _new_batch(self, outcome: Outcome) -> BatchBuilder:
        if not isinstance(outcome, OutcomeInTransaction):
            return BatchBuilder(base_sequence=FIRST_SEQUENCE)
        return BatchBuilder(
            producer_id=outcome.producer_id,
            producer_epoch=outcome.producer_epoch,
            base_sequence=FIRST_SEQUENCE,
            is_transactional=True,
        )

    def _refusal_of(self, batch: RecordBatch) -> Refusal | None:
        """Refuses transactional offsets of a fenced producer, whose transaction has ended."""
        if not batch.is_transactional:
            return None
        verdict = self.partition.log.producers.check(batch, has_sequences=False)
        assert verdict is None or isinstance(verdict, Refusal), "without sequences none is known"
        return verdict


def new_group_log(
    partition: Partition,
    clock: Clock,
    topics: TopicsOfCluster,
    turns: Turns,
    member_bytes: MemberBytes,
    *,
    settings: GroupSettings,
    consumer_settings: ConsumerGroupSettings,
    observer: DecisionObserver | None = None,
) -> GroupLog:
    state = Groups(settings, consumer_settings, topics, member_bytes)
    return GroupLog(partition, state, GROUP_RECORDS, clock, turns=turns, observer=observer)
