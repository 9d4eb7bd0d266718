"""Runs the steps of a transcript on PyKBroker's coordinator or on a real Apache Kafka."""

from __future__ import annotations

import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from pykbroker.coordination.transactions import add_partitions
from pykbroker.coordination.transactions.listing import listed_in_slices
from pykbroker.coordination.transactions.outcome import TopicPartition
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from pykbroker_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTransaction,
)
from pykbroker_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from pykbroker_protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from pykbroker_protocol.messages.end_txn import EndTxnRequest
from pykbroker_protocol.messages.find_coordinator import FindCoordinatorRequest
from pykbroker_protocol.messages.init_producer_id import InitProducerIdRequest
from pykbroker_protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from tests.apis.wire import Wire
from tests.coordination.transactions.world import World

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pykbroker.coordination.outcome import Ticket
    from pykbroker.coordination.transactions.outcome import TransactionOutcome
    from pykbroker.coordination.transactions.registry import Transactions
    from pykbroker.coordination.transactions.settings import TransactionSettings
    from pykbroker_protocol.message import Message

OFFSETS_PARTITION = TopicPartition("__consumer_offsets", 0)


class Unanswered(Exception):
    """The coordinator could not write its decision."""


def listed(
    transactions: Transactions, request: ListTransactionsRequest, now_ms: int
) -> ListTransactionsResponse:
    """Runs all slices at once."""
    responses: list[ListTransactionsResponse] = []

    def work() -> Iterator[None]:
        known = transactions.transactions.values()
        responses.append((yield from listed_in_slices(known, request, now_ms)))

    deque(work(), maxlen=0)
    return responses[0]


class TranscriptRunner(Protocol):
    def ask(self, request: Message, version: int) -> Any: ...


class OurCoordinator:
    """Answers requests with the pure coordinator; one partition has all transactional ids."""

    def __init__(self, settings: TransactionSettings, *, transaction_version: int = 2) -> None:
        self.world = World(settings, transaction_version=transaction_version)

    def ask(self, request: Message, version: int) -> Any:
        transactions = self.world.transactions
        match request:
            case DescribeTransactionsRequest():
                return DescribeTransactionsResponse(
                    transaction_states=transactions.describe_transactions(request.transactional_ids)
                )
            case ListTransactionsRequest():
                return listed(transactions, request, self.world.now_ms)
            case AddPartitionsToTxnRequest():
                return self.ask_to_join(request, version)
        before = len(self.world.replies)
        self.world.ask(lambda ticket: self.decide(request, version, ticket))
        if len(self.world.replies) == before:
            raise Unanswered
        (reply,) = self.world.replies[before:]
        return reply.response

    def ask_to_join(self, request: AddPartitionsToTxnRequest, version: int) -> Any:
        before = len(self.world.replies)
        for asked in add_partitions.transactions_of(request, version):
            self.world.ask(partial(self.decide_to_join, asked, version))
        if len(self.world.replies) == before:
            raise Unanswered
        results = [reply.response for reply in self.world.replies[before:]]
        assert all(isinstance(it, AddPartitionsToTxnResult) for it in results)
        return add_partitions.response_of(results, version)  # type: ignore[arg-type]  # as asserted

    def decide_to_join(
        self, asked: AddPartitionsToTxnTransaction, version: int, ticket: Ticket
    ) -> TransactionOutcome:
        return self.world.transactions.add_partitions_to_txn(
            asked, version=version, ticket=ticket, now_ms=self.world.now_ms
        )

    def decide(self, request: Message, version: int, ticket: Ticket) -> TransactionOutcome:
        world, transactions = self.world, self.world.transactions
        match request:
            case InitProducerIdRequest():
                new_producer_id = world.new_producer_id(request.transactional_id or "")
                return transactions.init_producer_id(
                    request,
                    version=version,
                    ticket=ticket,
                    new_producer_id=new_producer_id,
                    now_ms=world.now_ms,
                )
            case AddOffsetsToTxnRequest():
                return transactions.add_offsets_to_txn(
                    request,
                    version=version,
                    ticket=ticket,
                    offsets_partition=OFFSETS_PARTITION,
                    now_ms=world.now_ms,
                )
            case EndTxnRequest():
                new_producer_id = world.new_producer_id(request.transactional_id)
                return transactions.end_txn(
                    request,
                    version=version,
                    ticket=ticket,
                    new_producer_id=new_producer_id,
                    now_ms=world.now_ms,
                )
        raise AssertionError(request)


class Apache:
    """Runs steps on Apache Kafka; waits for its markers before the next step."""

    def __init__(self, port: int, topics: tuple[str, ...], prefix: str) -> None:
        self.wire = Wire(port)
        self.prefix = prefix
        wanted = [
            CreatableTopic(
                name=it, num_partitions=3, replication_factor=1, assignments=(), configs=()
            )
            for it in topics
        ]
        self.wire.ask(CreateTopicsRequest(topics=wanted, timeout_ms=10_000), 5)
        self.wait_for_coordinator()

    def close(self) -> None:
        self.wire.close()

    def wait_for_coordinator(self) -> None:
        """Waits until the first request has created partitions and allocated producer ids."""
        probe = InitProducerIdRequest(
            transactional_id=f"{self.prefix}probe", transaction_timeout_ms=1
        )
        deadline = time.monotonic() + 30
        while True:
            find = FindCoordinatorRequest(key=probe.transactional_id or "", key_type=1)
            if self.wire.ask(find, 3).error_code == ErrorCode.NONE:
                code = self.wire.ask(probe, 4).error_code
                if code == ErrorCode.NONE:
                    return
            assert time.monotonic() < deadline
            time.sleep(0.1)

    def ask(self, request: Message, version: int) -> Any:
        response = self.wire.ask(request, version)
        transactional_id = getattr(request, "transactional_id", None)
        if isinstance(request, (EndTxnRequest, InitProducerIdRequest)) and transactional_id:
            self.wait_for_markers(transactional_id)
        return response

    def wait_for_markers(self, transactional_id: str) -> None:
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        while True:
            (described,) = self.wire.ask(request, 0).transaction_states
            if not described.transaction_state.startswith("Prepare"):
                return
            time.sleep(0.005)
