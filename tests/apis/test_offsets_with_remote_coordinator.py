"""Transactional offset commits whose transaction coordinator is another broker."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from pykbroker.coordination.transactions.add_partitions import result_for
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from pykbroker_storage.filesystem import VolatileDisk
from tests.apis.one_broker import Client, answer_of, broker_on

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from pykbroker.broker import Broker
    from pykbroker_protocol.message import Message

PRODUCER_ID, EPOCH = 77, 3
TIMEOUT_SECONDS = 10.0


class Coordinator:
    """The coordinator on another broker: answers when it is released."""

    def __init__(self) -> None:
        self.code = ErrorCode.NONE
        self.requests: list[Any] = []
        self.released = asyncio.Event()

    async def add_partitions(self, request: Any, *, version: int) -> Message:
        self.requests.append((request, version))
        await self.released.wait()
        return result_for(request, lambda _: self.code)


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    async with broker_on(VolatileDisk(), tmp_path / "data") as broker:
        await broker.create_topics([("t", 1, 1), ("__consumer_offsets", 1, 1)])
        yield broker


@pytest.fixture
def coordinator(broker: Broker) -> Coordinator:
    coordinator = Coordinator()
    broker.transactions.reach_others(coordinator)  # type: ignore[arg-type]  # asked for no marker
    return coordinator


def commit(broker: Broker, version: int) -> asyncio.Future[Any]:
    request = TxnOffsetCommitRequest(
        transactional_id="moves",
        group_id="group",
        producer_id=PRODUCER_ID,
        producer_epoch=EPOCH,
        topics=[
            TxnOffsetCommitRequestTopic(
                name="t",
                partitions=[
                    TxnOffsetCommitRequestPartition(
                        partition_index=0, committed_offset=5, committed_metadata=""
                    )
                ],
            )
        ],
    )
    answer: asyncio.Future[Any] = Client(broker).ask(request, version)
    return answer


async def code_of(answer: asyncio.Future[Any]) -> int:
    async with asyncio.timeout(TIMEOUT_SECONDS):
        response = await answer_of(answer)
    code: int = response.topics[0].partitions[0].error_code
    return code


@pytest.mark.parametrize(
    ("version", "asked_in", "verifies"), [(3, 4, True), (4, 4, True), (5, 5, False)]
)
async def test_offsets_are_committed_after_one_request_to_the_coordinator(
    broker: Broker, coordinator: Coordinator, *, version: int, asked_in: int, verifies: bool
) -> None:
    coordinator.released.set()
    assert await code_of(commit(broker, version)) == ErrorCode.NONE
    ((request, asked_version),) = coordinator.requests
    assert (asked_version, request.verify_only) == (asked_in, verifies)
    partition = broker.partitions.get("__consumer_offsets", 0)
    assert partition is not None
    assert partition.log.producers.is_in_transaction(PRODUCER_ID, EPOCH)
    assert len(partition.leader.joining) == 0
    assert await code_of(commit(broker, version)) == ErrorCode.NONE
    assert len(coordinator.requests) == 1


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ErrorCode.NETWORK_EXCEPTION, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
async def test_nothing_is_committed_if_the_coordinator_refuses(
    broker: Broker, coordinator: Coordinator, code: ErrorCode, expected: ErrorCode
) -> None:
    coordinator.code = code
    coordinator.released.set()
    assert await code_of(commit(broker, 5)) == expected
    partition = broker.partitions.get("__consumer_offsets", 0)
    assert partition is not None
    assert not partition.log.producers.is_in_transaction(PRODUCER_ID, EPOCH)
    assert len(partition.leader.joining) == 0


async def test_nothing_is_committed_if_a_marker_arrives_before_the_answer(
    broker: Broker, coordinator: Coordinator
) -> None:
    answer = commit(broker, 5)
    await asyncio.sleep(0)
    partition = broker.partitions.get("__consumer_offsets", 0)
    assert partition is not None
    partition.leader.write_marker(
        producer_id=PRODUCER_ID,
        producer_epoch=EPOCH + 1,
        coordinator_epoch=0,
        committed=False,
        transaction_version=2,
        now_ms=broker.clock.now_ms(),
    )
    coordinator.released.set()
    assert await code_of(answer) == ErrorCode.INVALID_TXN_STATE
    assert not partition.log.producers.is_in_transaction(PRODUCER_ID, EPOCH)
