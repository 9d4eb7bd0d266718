"""One group, and the partition of its coordinator in a folder."""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pykbroker.clock import SystemClock
from pykbroker.coordination.groups.consumer_settings import ConsumerGroupSettings
from pykbroker.coordination.groups.offsets import refused_commit, refused_in_transaction
from pykbroker.coordination.groups.registry import Groups
from pykbroker.coordination.groups.settings import GroupSettings
from pykbroker.coordinators.coordinated_log import Status
from pykbroker.coordinators.group_log import GROUP_RECORDS, GroupLog
from pykbroker_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from pykbroker_protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from pykbroker_protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from pykbroker_storage.log import AppendResult
from tests.coordination.group_world import NO_PRODUCER, NO_TOPICS
from tests.partitions.transactions import PRODUCER, end, open_partition
from tests.storage.batches import NOW

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping
    from pathlib import Path

    from pykbroker.partitions.partition import Partition

GROUP, TOPIC = "driver", "log"


@dataclass
class GroupLogDriver:
    """Commits, deletes and reads offsets of one group."""

    partition: Partition
    log: GroupLog
    reasons: list[str]

    def commit(self, *offsets: int) -> list[int]:
        """Commits an offset for each partition from the first on, without a transaction."""
        return self.commit_at(dict(enumerate(offsets)))

    def commit_at(self, offsets: Mapping[int, int], producer_id: int = NO_PRODUCER) -> list[int]:
        if producer_id != NO_PRODUCER:
            return self.commit_in_transaction_at(offsets, producer_id, 0)
        partitions = [
            OffsetCommitRequestPartition(
                partition_index=index, committed_offset=offset, committed_metadata=""
            )
            for index, offset in offsets.items()
        ]
        topic = OffsetCommitRequestTopic(name=TOPIC, partitions=partitions)
        request = OffsetCommitRequest(group_id=GROUP, member_id="", topics=[topic])
        response = self.log.decide(
            lambda ticket: self.log.state.offset_commit(
                request, version=9, ticket=ticket, now_ms=NOW
            ),
            lambda code: refused_commit(request, code),
        )
        assert isinstance(response, OffsetCommitResponse)
        return [it.error_code for it in response.topics[0].partitions]

    def commit_in_transaction(
        self, *offsets: int, producer_id: int = PRODUCER, producer_epoch: int = 0
    ) -> list[int]:
        return self.commit_in_transaction_at(dict(enumerate(offsets)), producer_id, producer_epoch)

    def commit_in_transaction_at(
        self, offsets: Mapping[int, int], producer_id: int, producer_epoch: int
    ) -> list[int]:
        partitions = [
            TxnOffsetCommitRequestPartition(
                partition_index=index, committed_offset=offset, committed_metadata=""
            )
            for index, offset in offsets.items()
        ]
        request = TxnOffsetCommitRequest(
            transactional_id="t",
            group_id=GROUP,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            topics=[TxnOffsetCommitRequestTopic(name=TOPIC, partitions=partitions)],
        )
        response = self.log.decide(
            lambda ticket: self.log.state.txn_offset_commit(
                request, version=3, ticket=ticket, now_ms=NOW
            ),
            lambda code: refused_in_transaction(request, code),
        )
        assert isinstance(response, TxnOffsetCommitResponse)
        return [it.error_code for it in response.topics[0].partitions]

    def end(self, *, committed: bool, producer_id: int = PRODUCER, epoch: int = 0) -> None:
        written = end(
            self.partition, committed=committed, producer_id=producer_id, producer_epoch=epoch
        )
        assert isinstance(written, AppendResult)
        self.log.state.transaction_ended(producer_id, committed=committed)

    def delete_offset(self, partition: int) -> None:
        request = OffsetDeleteRequest(
            group_id=GROUP,
            topics=[
                OffsetDeleteRequestTopic(
                    name=TOPIC, partitions=[OffsetDeleteRequestPartition(partition_index=partition)]
                )
            ],
        )
        self.log.decide(
            lambda ticket: self.log.state.offset_delete(request, ticket=ticket, now_ms=NOW),
            lambda code: OffsetDeleteResponse(error_code=code, topics=()),
        )

    @property
    def offsets(self) -> dict[int, int]:
        of_topic = self.log.state.offsets.of_group(GROUP).get(TOPIC, {})
        return {partition: it.offset for partition, it in of_topic.items()}

    @property
    def pending(self) -> list[int]:
        return sorted(it for _, it in self.log.state.offsets.pending_keys(GROUP))


@contextmanager
def group_log(
    folder: Path, *, was_clean: bool = False, **overrides: str
) -> Iterator[GroupLogDriver]:
    settings: dict[str, Any] = {"segment_bytes": "1048576", **overrides}
    settings |= {"cleanup_policy": "compact", "was_clean": was_clean}
    with open_partition(folder, **settings) as partition:
        state = Groups(GroupSettings(), ConsumerGroupSettings(), NO_TOPICS)
        reasons: list[str] = []
        log = GroupLog(partition, state, GROUP_RECORDS, SystemClock(), observer=reasons.append)
        try:
            yield GroupLogDriver(partition, log, reasons)
        finally:
            log.resign()


@asynccontextmanager
async def loaded_group_log(folder: Path, **overrides: str) -> AsyncIterator[GroupLogDriver]:
    with group_log(folder, was_clean=False, **overrides) as driver:
        await driver.log.load()
        assert driver.log.status is Status.ACTIVE
        yield driver
