"""A producer that commits offsets of groups in transactions."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from pykbroker_protocol.messages.end_txn import EndTxnRequest
from pykbroker_protocol.messages.find_coordinator import FindCoordinatorRequest
from pykbroker_protocol.messages.init_producer_id import InitProducerIdRequest
from pykbroker_protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from pykbroker_protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.apis.groups.offsets import places
from tests.apis.transcript import READY_SECONDS_MAX

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.apis.groups.transcript import Group, GroupTranscript, Member
    from tests.apis.transcript import Topic

VERSIONS = range(6)
MEMBERS_SINCE = 3
IMPLICIT_SINCE = 5
ONE_MINUTE_MS = 60_000
OF_TRANSACTIONS = 1
NOT_YET = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)


class Producer:
    """A transactional producer with the producer id and epoch of its last response."""

    def __init__(self, broker: GroupTranscript, name: str = "producer") -> None:
        self.broker = broker
        self.transactional_id = f"{broker.prefix}-{name}"
        self.id = -1
        self.epoch = -1
        self.enter()

    def enter(self) -> None:
        """Sends InitProducerId, which fences the previous producer."""
        finding = FindCoordinatorRequest(key=self.transactional_id, key_type=OF_TRANSACTIONS)
        self.insist(finding, 3)
        found = self.insist(
            InitProducerIdRequest(
                transactional_id=self.transactional_id, transaction_timeout_ms=ONE_MINUTE_MS
            ),
            4,
        )
        self.id, self.epoch = found.producer_id, found.producer_epoch

    def insist(self, request: Any, version: int) -> Any:
        """Repeats while the previous transaction is completing."""
        deadline = time.monotonic() + READY_SECONDS_MAX
        while (answer := self.broker.quietly(request, version)).error_code in NOT_YET:
            assert time.monotonic() < deadline, answer
            time.sleep(0.01)
        assert not answer.error_code, answer
        return answer

    def add(self, group: Group) -> None:
        self.insist(
            AddOffsetsToTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=self.id,
                producer_epoch=self.epoch,
                group_id=group.id,
            ),
            3,
        )

    def commit(
        self,
        group: Group,
        *topics: TxnOffsetCommitRequestTopic,
        member: Member | None = None,
        version: int = 3,
        note: str = "",
        **more: Any,
    ) -> Any:
        request = TxnOffsetCommitRequest(
            **{
                "transactional_id": self.transactional_id,
                "group_id": group.id,
                "producer_id": self.id,
                "producer_epoch": self.epoch,
                "generation_id": member.generation if member else -1,
                "member_id": member.id if member else "",
                "group_instance_id": member.instance if member else None,
                "topics": topics,
                **more,
            }
        )
        return self.broker.ask(request, version, note=note)

    def end(self, group: Group, *, committed: bool = True, version: int = 3) -> None:
        """Ends the transaction and waits until the group coordinator has its marker."""
        answer = self.insist(
            EndTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=self.id,
                producer_epoch=self.epoch,
                committed=committed,
            ),
            version,
        )
        if version >= IMPLICIT_SINCE:
            self.id, self.epoch = answer.producer_id, answer.producer_epoch
        self.add(group)  # after the markers are written


def within(topic: Topic, offsets: Mapping[int, int], **more: Any) -> TxnOffsetCommitRequestTopic:
    return TxnOffsetCommitRequestTopic(
        name=topic.name,
        partitions=[
            TxnOffsetCommitRequestPartition(
                **{
                    "partition_index": partition,
                    "committed_offset": offset,
                    "committed_metadata": "words",
                    **more,
                }
            )
            for partition, offset in offsets.items()
        ],
    )


def fetch_both(
    group: Group, topics: Mapping[Topic, Sequence[int]] | None = None, *, note: str = ""
) -> None:
    """Fetches offsets with and without require_stable."""
    query = OffsetFetchRequestGroup(group_id=group.id, topics=places(topics))
    for stable in (False, True):
        request = OffsetFetchRequest(groups=[query], require_stable=stable)
        note_text = f"{note}{' stable' if stable else ''}"
        group.broker.ask(request, 8, note=note_text)
