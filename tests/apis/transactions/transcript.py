"""A conversation of producers with their transaction coordinator."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from pykbroker_protocol.messages.describe_transactions import DescribeTransactionsRequest
from pykbroker_protocol.messages.end_txn import EndTxnRequest
from pykbroker_protocol.messages.find_coordinator import FindCoordinatorRequest
from pykbroker_protocol.messages.init_producer_id import InitProducerIdRequest
from tests.apis.request_builders import batch, produced, to_partition
from tests.apis.transcript import READY_SECONDS_MAX, Transcript

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pykbroker_protocol.message import Message
    from pykbroker_protocol.messages.produce import ProduceRequest
    from tests.apis.transcript import Plain, Topic

    Conversation = Callable[["TransactionTranscript"], None]

OF_TRANSACTIONS = 1
ONE_MINUTE_MS = 60_000
EPOCH_PER_TRANSACTION_SINCE = 5
BATCHED_SINCE = 4
NOT_YET = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)
CONVERSATIONS: dict[str, Conversation] = {}


def conversation(hold: Conversation) -> Conversation:
    assert hold.__name__ not in CONVERSATIONS
    CONVERSATIONS[hold.__name__] = hold
    return hold


class TransactionTranscript(Transcript):
    """An transcript with transactional ids whose coordinators are loaded."""

    def plain_value(self, name: str, value: Any) -> Plain:
        """Sorts partitions and producers, whose order is undefined."""
        if name == "partitions" and all(isinstance(it, int) for it in value):
            return sorted(value)
        if name == "active_producers":
            value = sorted(value, key=lambda it: it.producer_id)
        return super().plain_value(name, value)

    def transactional_id(self, name: str = "id") -> str:
        full_name = f"{self.prefix}-{name}"
        self.producer_id()
        self.until(
            FindCoordinatorRequest(key=full_name, key_type=OF_TRANSACTIONS),
            3,
            lambda answer: not answer.error_code,
        )
        self.until(
            described(full_name),
            0,
            lambda answer: answer.transaction_states[0].error_code not in NOT_YET,
        )
        return full_name

    def producer(self, name: str = "id", **more: Any) -> Producer:
        """Returns an initialized producer without recording its requests."""
        producer = Producer(self, self.transactional_id(name))
        producer.take_over(**more)
        return producer

    def until(self, request: Message, version: int, is_right: Callable[[Any], bool]) -> Any:
        deadline = time.monotonic() + READY_SECONDS_MAX
        while not is_right(answer := self.quietly(request, version)):
            assert time.monotonic() < deadline, answer
            time.sleep(0.01)
        return answer


class Producer:
    """A producer instance with the producer id and epoch of its last response."""

    def __init__(self, broker: TransactionTranscript, transactional_id: str) -> None:
        self.broker = broker
        self.transactional_id = transactional_id
        self.id = -1
        self.epoch = -1
        self.sequence = 0

    # --- Requests

    def claim(self, **more: Any) -> InitProducerIdRequest:
        return InitProducerIdRequest(
            **{
                "transactional_id": self.transactional_id,
                "transaction_timeout_ms": ONE_MINUTE_MS,
                **more,
            }
        )

    def addition(
        self, topic: Topic | str, partitions: Iterable[int] = (0,), **more: Any
    ) -> AddPartitionsToTxnRequest:
        """Sends the format of clients, up to version 3."""
        name = topic if isinstance(topic, str) else topic.name
        return AddPartitionsToTxnRequest(
            **{
                "v3_and_below_transactional_id": self.transactional_id,
                "v3_and_below_producer_id": self.id,
                "v3_and_below_producer_epoch": self.epoch,
                "v3_and_below_topics": [
                    AddPartitionsToTxnTopic(name=name, partitions=tuple(partitions))
                ],
                **more,
            }
        )

    def part_of_batch(
        self, topic: Topic | str, partitions: Iterable[int] = (0,), **more: Any
    ) -> AddPartitionsToTxnTransaction:
        """Sends the format of brokers, since version 4."""
        name = topic if isinstance(topic, str) else topic.name
        return AddPartitionsToTxnTransaction(
            **{
                "transactional_id": self.transactional_id,
                "producer_id": self.id,
                "producer_epoch": self.epoch,
                "verify_only": False,
                "topics": [AddPartitionsToTxnTopic(name=name, partitions=tuple(partitions))],
                **more,
            }
        )

    def writing(self, topic: Topic, *, partition: int = 0, value: bytes = b"v") -> ProduceRequest:
        records = batch(
            value,
            now_ms=self.broker.now_ms,
            producer_id=self.id,
            producer_epoch=self.epoch,
            base_sequence=self.sequence,
            is_transactional=True,
        )
        data = to_partition(records, topic=topic.name, topic_id=topic.id, partition=partition)
        return produced(data).replace(transactional_id=self.transactional_id)

    def ending(self, **more: Any) -> EndTxnRequest:
        return EndTxnRequest(
            **{
                "transactional_id": self.transactional_id,
                "producer_id": self.id,
                "producer_epoch": self.epoch,
                "committed": True,
                **more,
            }
        )

    # --- Client actions that are not recorded

    def take_over(self, version: int = 4, **more: Any) -> None:
        answer = self.broker.until(
            self.claim(**more), version, lambda it: it.error_code != CONCURRENT
        )
        assert not answer.error_code, answer
        self.id, self.epoch, self.sequence = answer.producer_id, answer.producer_epoch, 0

    def add(self, topic: Topic, partitions: Iterable[int] = (0,)) -> None:
        answer = self.broker.until(
            self.addition(topic, partitions), 3, lambda it: first_code(it) != CONCURRENT
        )
        assert not first_code(answer), answer

    def send(self, topic: Topic, *, partition: int = 0, version: int = 11) -> None:
        request = self.writing(topic, partition=partition)
        answer = self.broker.until(request, version, lambda it: not produce_code(it))
        assert not produce_code(answer), answer
        self.sequence += 1

    def end(self, *, committed: bool = True, version: int = 4) -> None:
        answer = self.broker.quietly(self.ending(committed=committed), version)
        assert not answer.error_code, answer
        if version >= EPOCH_PER_TRANSACTION_SINCE:
            self.id, self.epoch, self.sequence = answer.producer_id, answer.producer_epoch, 0
        self.until_complete()

    def until_complete(self) -> None:
        """Waits until all markers are written."""
        self.broker.until(
            described(self.transactional_id),
            0,
            lambda it: not it.transaction_states[0].transaction_state.startswith("Prepare"),
        )


CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS


def described(*transactional_ids: str) -> DescribeTransactionsRequest:
    return DescribeTransactionsRequest(transactional_ids=transactional_ids)


def first_code(answer: Any) -> int:
    return int(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)


def produce_code(answer: Any) -> int:
    return int(answer.responses[0].partition_responses[0].error_code)


def together(*parts: AddPartitionsToTxnTransaction) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(transactions=parts)
