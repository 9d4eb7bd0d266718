"""Produce requests add partitions to transactions or verify them with the coordinator."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import pytest

from pykbroker.apis.node import Call, Node
from pykbroker.apis.produce import handle
from pykbroker.coordination.transactions.outcome import TopicPartition
from pykbroker.settings import load_settings
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.partitions.transactions import (
    PRODUCER,
    end,
    open_partition,
    transactional_batch,
)
from tests.storage.batches import NOW

if TYPE_CHECKING:
    from pathlib import Path

    from pykbroker.apis.peer import Peer
    from pykbroker.partitions.partition import Partition

VERSION_1, VERSION_2 = 11, 12
"""Versions of Produce for transaction versions 1 and 2."""
BEFORE_ABORTABLE = 10
CODES = {code.value: code for code in ErrorCode}

Verdicts = Mapping[TopicPartition, ErrorCode]


class Clock:
    """A clock that advances when its `sleep` is called."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now_ms(self) -> int:
        return NOW

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds
        await asyncio.sleep(0)


@dataclass
class Coordinator:
    """Returns configured answers, directly or as futures, and records the requests."""

    answers: list[ErrorCode | asyncio.Future[Verdicts]] = field(default_factory=list)
    asked: list[tuple[str, int, int, list[TopicPartition], bool]] = field(default_factory=list)

    def join(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        places: Sequence[TopicPartition],
        *,
        verify_only: bool,
    ) -> Verdicts | asyncio.Future[Verdicts]:
        self.asked.append(
            (transactional_id, producer_id, producer_epoch, list(places), verify_only)
        )
        answer = self.answers.pop(0) if self.answers else ErrorCode.NONE
        return dict.fromkeys(places, answer) if isinstance(answer, ErrorCode) else answer


class Board:
    def __init__(self, partition: Partition) -> None:
        self.partition = partition

    def get(self, topic: str, index: int) -> Partition | None:
        return self.partition if (topic, index) == ("t", 0) else None


@dataclass
class Broker:
    """The parts of a node that Produce uses."""

    partitions: Board
    transactions: Coordinator = field(default_factory=Coordinator)
    clock: Clock = field(default_factory=Clock)
    settings: Any = field(default_factory=load_settings)

    def produce(
        self, *, version: int = VERSION_2, acks: int = 1, transactional_id: str = "id", **more: Any
    ) -> Any:
        request = ProduceRequest(
            transactional_id=transactional_id,
            acks=acks,
            timeout_ms=1000,
            topic_data=[
                TopicProduceData(
                    name="t",
                    partition_data=[
                        PartitionProduceData(
                            index=0, records=transactional_batch(b"v", **more).view
                        )
                    ],
                )
            ],
        )
        return handle(request, Call(cast("Node", self), version, "test", cast("Peer", None)))

    def code(self, **more: Any) -> ErrorCode:
        return code_of(self.produce(**more))


def code_of(response: Any) -> ErrorCode:
    assert isinstance(response, ProduceResponse)
    return CODES[response.responses[0].partition_responses[0].error_code]


async def code_later(response: Any) -> ErrorCode:
    assert isinstance(response, Awaitable)
    return code_of(await response)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with open_partition(tmp_path / "t-0") as partition:
        yield Broker(Board(partition))


def end_offset(broker: Broker) -> int:
    return broker.partitions.partition.log.log_end_offset


# --- Requests to the coordinator


@pytest.mark.parametrize(("version", "verify_only"), [(VERSION_1, True), (VERSION_2, False)])
def test_partitions_are_added_for_version_2_and_verified_for_older_producers(
    broker: Broker, version: int, *, verify_only: bool
) -> None:
    assert broker.code(version=version, producer_epoch=3) is ErrorCode.NONE
    assert broker.transactions.asked == [("id", PRODUCER, 3, [TopicPartition("t", 0)], verify_only)]


def test_the_coordinator_is_involved_once_per_transaction(broker: Broker) -> None:
    for sequence in range(3):
        assert broker.code(base_sequence=sequence) is ErrorCode.NONE
    assert len(broker.transactions.asked) == 1
    end(broker.partitions.partition, committed=True)
    assert broker.code(base_sequence=3) is ErrorCode.NONE
    assert len(broker.transactions.asked) == 2


def test_batches_without_transaction_do_not_involve_the_coordinator(broker: Broker) -> None:
    assert broker.code(is_transactional=False) is ErrorCode.NONE
    assert broker.transactions.asked == []


# --- Handling of the responses


@pytest.mark.parametrize(
    ("answer", "version", "expected"),
    [
        (ErrorCode.INVALID_PRODUCER_EPOCH, VERSION_2, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, 3, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (ErrorCode.TRANSACTION_ABORTABLE, VERSION_2, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.TRANSACTION_ABORTABLE, VERSION_1, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.TRANSACTION_ABORTABLE, BEFORE_ABORTABLE, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.CONCURRENT_TRANSACTIONS, VERSION_1, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.NOT_COORDINATOR, VERSION_2, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, VERSION_1, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, VERSION_2, ErrorCode.NOT_ENOUGH_REPLICAS),
    ],
)
def test_coordinator_errors_are_mapped_for_the_version_of_the_producer(
    broker: Broker, answer: ErrorCode, version: int, expected: ErrorCode
) -> None:
    broker.transactions.answers = [answer]
    assert broker.code(version=version) is expected
    assert end_offset(broker) == 0


async def test_an_append_retries_while_the_previous_transaction_ends(broker: Broker) -> None:
    broker.transactions.answers = [ErrorCode.CONCURRENT_TRANSACTIONS] * 3
    assert await code_later(broker.produce()) is ErrorCode.NONE
    assert len(broker.transactions.asked) == 4
    assert broker.clock.seconds == pytest.approx(0.06)


async def test_an_append_succeeds_when_the_previous_transaction_ends_during_the_retries(
    broker: Broker,
) -> None:
    assert broker.code() is ErrorCode.NONE
    broker.transactions.answers = [ErrorCode.CONCURRENT_TRANSACTIONS]
    response = broker.produce(producer_epoch=1)
    end(broker.partitions.partition, committed=True, producer_epoch=1, transaction_version=2)
    assert await code_later(response) is ErrorCode.NONE
    assert end_offset(broker) == 3


async def test_retries_stop_after_the_maximum_backoff(broker: Broker) -> None:
    broker.transactions.answers = [ErrorCode.CONCURRENT_TRANSACTIONS] * 100
    assert await code_later(broker.produce()) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert broker.clock.seconds == pytest.approx(0.1)
    assert end_offset(broker) == 0


# --- While the response is pending


def later(broker: Broker, count: int = 1) -> list[asyncio.Future[Verdicts]]:
    loop = asyncio.get_running_loop()
    answers: list[asyncio.Future[Verdicts]] = [loop.create_future() for _ in range(count)]
    broker.transactions.answers = [*answers]
    return answers


JOINED: Verdicts = {TopicPartition("t", 0): ErrorCode.NONE}


async def test_the_batch_is_appended_after_the_response_of_the_coordinator(broker: Broker) -> None:
    (answer,) = later(broker)
    response = broker.produce()
    assert end_offset(broker) == 0
    answer.set_result(JOINED)
    assert await code_later(response) is ErrorCode.NONE
    assert end_offset(broker) == 1


async def test_a_batch_is_rejected_if_its_transaction_ends_during_verification(
    broker: Broker,
) -> None:
    (answer,) = later(broker)
    response = broker.produce()
    end(broker.partitions.partition, committed=False)
    answer.set_result(JOINED)
    assert await code_later(response) is ErrorCode.INVALID_TXN_STATE
    assert end_offset(broker) == 1  # the marker


async def test_batches_keep_their_order_if_coordinator_responses_arrive_in_another(
    broker: Broker,
) -> None:
    first_answer, second_answer = later(broker, 2)
    first, second = broker.produce(), broker.produce(base_sequence=1)
    second_answer.set_result(JOINED)
    assert await code_later(second) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    first_answer.set_result(JOINED)
    assert await code_later(first) is ErrorCode.NONE
    assert broker.code(base_sequence=1) is ErrorCode.NONE


async def test_a_transactional_batch_with_acks_0_is_appended(broker: Broker) -> None:
    (answer,) = later(broker)
    response = broker.produce(acks=0)
    answer.set_result(JOINED)
    assert await response is None
    assert end_offset(broker) == 1
