"""AlterPartition requests of a broker, against a scripted controller."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from pykbroker.controller_access import ControllerUnavailable
from pykbroker.partitions.in_sync import (
    InSyncChange,
    InSyncProposal,
    ProposalOutcome,
    RefusalEffect,
    effect_of_refusal,
)
from pykbroker.partitions.leader_context import LeaderContext
from pykbroker.partitions.leadership import Leadership
from pykbroker.replication import in_sync_proposals
from pykbroker.replication.in_sync_proposals import InSyncProposals
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    PartitionResult,
    TopicResult,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pykbroker_protocol.message import Message, Versions

TIMEOUT_SECONDS = 20
TOPIC = b"t" * 16


@dataclass
class Named:
    index: int
    topic: str = "orders"
    topic_id: bytes = TOPIC
    leadership: Leadership = field(
        default_factory=lambda: Leadership(
            leader=1, leader_epoch=5, partition_epoch=7, replicas=(1, 2), in_sync=(1, 2)
        )
    )

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"


class Leader:
    """A proposer that keeps its outcomes."""

    def __init__(self, index: int = 0) -> None:
        self.partition = Named(index)
        self.outcomes: list[ProposalOutcome] = []
        self.pending: InSyncProposal | None = None
        self.settled = asyncio.Event()

    def propose(self, to: InSyncProposals, *in_sync: int) -> None:
        self.pending = InSyncProposal(
            in_sync=tuple((it, 10 * it) for it in in_sync), leader_epoch=5, partition_epoch=7
        )
        to.propose(self, self.pending)

    def is_pending(self, proposal: InSyncProposal) -> bool:
        return self.pending is proposal

    def settle_proposal(
        self, proposal: InSyncProposal, outcome: ProposalOutcome
    ) -> RefusalEffect | None:
        self.outcomes.append(outcome)
        self.settled.set()
        if proposal is not self.pending:
            return None
        if isinstance(outcome, ErrorCode):
            return effect_of_refusal(outcome)
        self.pending = None
        return None


class Controller:
    """A channel whose responses the test decides."""

    def __init__(self) -> None:
        self.requests: asyncio.Queue[AlterPartitionRequest] = asyncio.Queue()
        self.responses: asyncio.Queue[Any] = asyncio.Queue()

    async def request(
        self,
        request: Message,
        response_type: Any,
        *,
        version_max: int | None = None,
        timeout_seconds: float | None = None,
    ) -> Any:
        del response_type, version_max, timeout_seconds
        assert isinstance(request, AlterPartitionRequest)
        self.requests.put_nowait(request)
        response = await self.responses.get()
        if isinstance(response, Exception):
            raise response
        return response

    def versions_of(self, api_key: int) -> Versions | None:
        raise AssertionError(api_key)

    async def received(self) -> AlterPartitionRequest:
        return await asyncio.wait_for(self.requests.get(), TIMEOUT_SECONDS)

    def confirm(self, request: AlterPartitionRequest, **changes: Any) -> None:
        rows = [
            PartitionResult(
                **{
                    "partition_index": row.partition_index,
                    "error_code": 0,
                    "leader_id": 1,
                    "leader_epoch": row.leader_epoch,
                    "isr": [it.broker_id for it in row.new_isr_with_epochs],
                    "partition_epoch": row.partition_epoch + 1,
                    **changes,
                }
            )
            for topic in request.topics
            for row in topic.partitions
        ]
        self.responses.put_nowait(
            AlterPartitionResponse(
                error_code=0, topics=[TopicResult(topic_id=TOPIC, partitions=rows)]
            )
        )


@pytest.fixture
def controller() -> Controller:
    return Controller()


@pytest.fixture
async def proposals(controller: Controller) -> AsyncIterator[InSyncProposals]:
    context = LeaderContext()
    context.own_epoch = 10
    sender = InSyncProposals(controller, context, node_id=1)
    yield sender
    await sender.close()


async def settled(leader: Leader) -> None:
    await asyncio.wait_for(leader.settled.wait(), TIMEOUT_SECONDS)
    leader.settled.clear()


async def test_proposal_is_sent_with_broker_epochs(
    controller: Controller, proposals: InSyncProposals
) -> None:
    leader = Leader()
    leader.propose(proposals, 1, 3)
    request = await controller.received()
    assert (request.broker_id, request.broker_epoch) == (1, 10)
    [topic] = request.topics
    [row] = topic.partitions
    assert (row.partition_index, row.leader_epoch, row.partition_epoch) == (0, 5, 7)
    assert [(it.broker_id, it.broker_epoch) for it in row.new_isr_with_epochs] == [
        (1, 10),
        (3, 30),
    ]
    controller.confirm(request)
    await settled(leader)
    assert leader.outcomes == [
        InSyncChange(leader=1, leader_epoch=5, in_sync=(1, 3), partition_epoch=8)
    ]


async def test_proposals_share_one_request_while_another_is_in_flight(
    controller: Controller, proposals: InSyncProposals
) -> None:
    leaders = [Leader(index) for index in range(4)]
    leaders[0].propose(proposals, 1)
    first = await controller.received()
    for leader in leaders[1:]:
        leader.propose(proposals, 1)
    await asyncio.sleep(0)
    assert controller.requests.empty()
    controller.confirm(first)
    second = await controller.received()
    assert [row.partition_index for row in second.topics[0].partitions] == [1, 2, 3]
    controller.confirm(second)
    await settled(leaders[3])


async def test_request_has_at_most_a_fixed_number_of_partitions(
    controller: Controller, proposals: InSyncProposals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_sync_proposals, "PROPOSALS_PER_REQUEST_MAX", 2)
    for leader in (leaders := [Leader(index) for index in range(3)]):
        leader.propose(proposals, 1)
    sizes = []
    for _ in range(2):
        request = await controller.received()
        sizes.append(len(request.topics[0].partitions))
        controller.confirm(request)
    assert sizes == [2, 1]
    await settled(leaders[2])


@pytest.mark.parametrize(
    "failure",
    [
        ControllerUnavailable("no active controller"),
        AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH, topics=()),
        AlterPartitionResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR, topics=()),
        AlterPartitionResponse(error_code=0, topics=()),
    ],
    ids=["unavailable", "stale broker epoch", "server error", "left out"],
)
async def test_proposal_without_an_outcome_is_sent_again(
    controller: Controller, proposals: InSyncProposals, failure: object
) -> None:
    leader = Leader()
    leader.propose(proposals, 1)
    first = await controller.received()
    controller.responses.put_nowait(failure)
    second = await controller.received()
    assert second == first
    controller.confirm(second)
    await settled(leader)


async def test_proposal_replaced_by_metadata_is_not_sent_again(
    controller: Controller, proposals: InSyncProposals
) -> None:
    leader, other = Leader(0), Leader(1)
    leader.propose(proposals, 1)
    await controller.received()
    leader.pending = None
    other.propose(proposals, 1)
    controller.responses.put_nowait(ControllerUnavailable("no active controller"))
    request = await controller.received()
    assert [row.partition_index for row in request.topics[0].partitions] == [1]


async def test_unexpected_error_of_a_partition_is_retried(
    controller: Controller, proposals: InSyncProposals
) -> None:
    leader = Leader()
    leader.propose(proposals, 1)
    controller.confirm(await controller.received(), error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
    await settled(leader)
    controller.confirm(await controller.received())
    await settled(leader)
    assert leader.outcomes[0] is ErrorCode.UNKNOWN_SERVER_ERROR
    assert isinstance(leader.outcomes[1], InSyncChange)


@pytest.mark.parametrize("code", [ErrorCode.INELIGIBLE_REPLICA, ErrorCode.INVALID_UPDATE_VERSION])
async def test_refused_proposal_is_not_sent_again(
    controller: Controller, proposals: InSyncProposals, code: ErrorCode
) -> None:
    leader, other = Leader(0), Leader(1)
    leader.propose(proposals, 1)
    controller.confirm(await controller.received(), error_code=code)
    await settled(leader)
    other.propose(proposals, 1)
    request = await controller.received()
    assert [row.partition_index for row in request.topics[0].partitions] == [1]


async def test_newer_proposal_waits_for_the_response_to_the_older_one(
    controller: Controller, proposals: InSyncProposals
) -> None:
    leader = Leader()
    leader.propose(proposals, 1)
    first = await controller.received()
    leader.propose(proposals, 1, 3)
    controller.confirm(first)
    second = await controller.received()
    assert [it.broker_id for it in second.topics[0].partitions[0].new_isr_with_epochs] == [1, 3]
    controller.confirm(second)


async def test_changes_of_many_partitions_are_one_log_line(
    controller: Controller, proposals: InSyncProposals, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    leaders = [Leader(index) for index in range(7)]
    for leader in leaders:
        leader.propose(proposals, 1)
    controller.confirm(await controller.received())
    await settled(leaders[6])
    [line] = [it.getMessage() for it in caplog.records if it.name == in_sync_proposals.__name__]
    assert line.startswith(
        "in-sync replicas: broker 2 left 7 partitions "
        "(orders-0, orders-1, orders-2, orders-3, orders-4, …)"
    )


async def test_close_ends_the_request_in_flight(
    controller: Controller, proposals: InSyncProposals
) -> None:
    leader = Leader()
    leader.propose(proposals, 1)
    await controller.received()
    await proposals.close()
    leader.propose(proposals, 1)
    await asyncio.sleep(0)
    assert controller.requests.empty()
