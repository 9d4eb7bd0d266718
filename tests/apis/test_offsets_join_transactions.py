"""The offsets partition is part of a transaction before its offsets are appended."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import pytest

from pykbroker.apis.txn_offset_commit import refusal_of_transaction
from pykbroker.coordination.transactions.outcome import TopicPartition
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

if TYPE_CHECKING:
    from pykbroker.apis.node import Call
    from pykbroker.partitions.partition import Partition

PLACE = TopicPartition("__consumer_offsets", 3)
REQUEST = TxnOffsetCommitRequest(
    transactional_id="t", group_id="g", producer_id=7, producer_epoch=1, topics=()
)


@dataclass
class Transactions:
    """Returns answers in order, directly or as futures."""

    answers: list[tuple[ErrorCode, str]]
    asked: list[bool] = field(default_factory=list)
    is_open: bool = False

    def join(self, *about: Any, verify_only: bool) -> Any:
        assert about == ("t", 7, 1, [PLACE])
        self.asked.append(verify_only)
        code, when = self.answers.pop(0)
        if when == "at once":
            return {PLACE: code}
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(answer.set_result, {PLACE: code})
        return answer

    def is_elsewhere(self, transactional_id: str) -> bool:
        assert transactional_id == "t"
        return False

    # One object stands for the call, the node and the coordinator.
    @property
    def node(self) -> Transactions:
        return self

    transactions = log = producers = node
    topic, index = PLACE

    def is_in_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        assert (producer_id, producer_epoch) == (7, 1)
        return self.is_open


async def refusal(transactions: Transactions, version: int) -> ErrorCode:
    call: Any = transactions
    call.version = version
    partition = cast("Partition", transactions)
    code = refusal_of_transaction(REQUEST, partition, cast("Call", call))
    return code if isinstance(code, ErrorCode) else await code


@pytest.mark.parametrize(("version", "verify_only"), [(0, True), (3, True), (4, True), (5, False)])
async def test_the_offsets_partition_is_added_since_version_5(
    version: int, *, verify_only: bool
) -> None:
    transactions = Transactions([(ErrorCode.NONE, "at once")])
    assert await refusal(transactions, version) is ErrorCode.NONE
    assert transactions.asked == [verify_only]


async def test_an_open_transaction_does_not_involve_the_coordinator() -> None:
    assert await refusal(Transactions([], is_open=True), 5) is ErrorCode.NONE


async def test_the_partition_is_verified_again_after_a_wait() -> None:
    transactions = Transactions(
        [(ErrorCode.NONE, "later"), (ErrorCode.TRANSACTION_ABORTABLE, "at once")]
    )
    assert await refusal(transactions, 5) is ErrorCode.TRANSACTION_ABORTABLE
    assert transactions.asked == [False, True]


async def test_an_error_of_the_coordinator_stops_the_verification() -> None:
    transactions = Transactions([(ErrorCode.INVALID_PRODUCER_EPOCH, "later")])
    assert await refusal(transactions, 5) is ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (0, ErrorCode.INVALID_TXN_STATE),
        (3, ErrorCode.INVALID_TXN_STATE),
        (4, ErrorCode.TRANSACTION_ABORTABLE),
        (5, ErrorCode.TRANSACTION_ABORTABLE),
    ],
)
async def test_coordinator_errors_are_mapped_for_older_clients(
    version: int, expected: ErrorCode
) -> None:
    transactions = Transactions([(ErrorCode.TRANSACTION_ABORTABLE, "at once")])
    assert await refusal(transactions, version) is expected
