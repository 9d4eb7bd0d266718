"""Which version is spoken, and what becomes of aborted records, without a broker."""

from collections.abc import Sequence

import pytest

from pykbroker.address import Address
from pykbroker.cli.client import Broker
from pykbroker.cli.consumer import AbortedProducers
from pykbroker.cli.failure import CommandFailed, Refused
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.frame import write_response
from pykbroker_protocol.message import Message
from pykbroker_protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from pykbroker_protocol.messages.fetch import AbortedTransaction, FetchRequest, PartitionData
from pykbroker_protocol.messages.init_producer_id import InitProducerIdRequest
from pykbroker_protocol.messages.produce import ProduceRequest
from pykbroker_protocol.records.batch import RecordBatch
from pykbroker_protocol.records.builder import BatchBuilder
from pykbroker_protocol.records.control import EndTransactionMarker, marker_batch


class Script:
    """A connection on which each request gets the next of these answers."""

    is_open = True

    def __init__(self, *answers: bytes) -> None:
        self._answers = list(answers)
        self.versions_asked: list[int] = []

    async def request(
        self, frame: Sequence[bytes], *, timeout_s: float | None = None
    ) -> memoryview:
        assert timeout_s is None
        self.versions_asked.append(int.from_bytes(b"".join(frame)[2:4], "big"))
        return memoryview(self._answers.pop(0))


def answer(message: Message, version: int) -> bytes:
    return b"".join(write_response(message, version, 1))


def offers(*ranges: tuple[int, int, int], error_code: int = 0) -> ApiVersionsResponse:
    keys = [ApiVersion(api_key=key, min_version=low, max_version=high) for key, low, high in ranges]
    return ApiVersionsResponse(error_code=error_code, api_keys=keys)


async def broker_that_offers(*ranges: tuple[int, int, int]) -> Broker:
    connection = Script(answer(offers(*ranges), 4))
    broker = Broker(Address("broker", 9092), connection)  # type: ignore[arg-type]  # acts like one
    await broker.greet()
    return broker


@pytest.mark.parametrize(
    ("message", "offered", "version_max", "version"),
    [
        (FetchRequest, (1, 4, 18), None, 18),
        (FetchRequest, (1, 4, 99), None, 18),
        (FetchRequest, (1, 4, 16), None, 16),
        (FetchRequest, (1, 4, 18), 12, 12),
        (ProduceRequest, (0, 0, 13), None, 13),
        (InitProducerIdRequest, (22, 0, 6), None, 5),  # 6 is not finished yet
    ],
)
async def test_the_newest_version_that_both_sides_speak_is_taken(
    message: type[Message], offered: tuple[int, int, int], version_max: int | None, version: int
) -> None:
    broker = await broker_that_offers(offered)
    assert broker.version_of(message, version_max) == version


@pytest.mark.parametrize("offered", [(1, 19, 20), (1, 0, 3), (0, 0, 13)])
async def test_without_a_common_version_the_request_is_not_sent(
    offered: tuple[int, int, int],
) -> None:
    broker = await broker_that_offers(offered)
    with pytest.raises(Refused) as refused:
        broker.version_of(FetchRequest)
    assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION


async def test_a_broker_too_old_for_our_question_is_asked_again_in_version_0() -> None:
    refusal = offers((18, 0, 2), error_code=ErrorCode.UNSUPPORTED_VERSION)
    connection = Script(answer(refusal, 0), answer(offers((18, 0, 2), (1, 4, 11)), 0))
    broker = Broker(Address("broker", 9092), connection)  # type: ignore[arg-type]  # acts like one
    await broker.greet()
    assert connection.versions_asked == [4, 0]
    assert broker.version_of(FetchRequest) == 11


async def test_an_answer_that_cannot_be_read_is_one_line() -> None:
    connection = Script(b"\0\0\0\1\0\0\xff\xff\xff\xff\xff\xff")
    broker = Broker(Address("broker", 9092), connection)  # type: ignore[arg-type]  # acts like one
    with pytest.raises(CommandFailed, match=r"broker:9092 answered what cannot be read"):
        await broker.greet()


def test_records_of_an_aborted_transaction_are_covered_until_its_marker() -> None:
    def transactional(base_offset: int, producer_id: int) -> RecordBatch:
        builder = BatchBuilder(
            base_offset=base_offset, producer_id=producer_id, is_transactional=True
        )
        builder.append(0, None, b"")
        return RecordBatch.parse(builder.build())

    def aborted(base_offset: int, producer_id: int) -> RecordBatch:
        marker = EndTransactionMarker(is_commit=False, coordinator_epoch=0)
        return RecordBatch.parse(
            marker_batch(
                marker,
                producer_id=producer_id,
                producer_epoch=0,
                timestamp_ms=0,
                base_offset=base_offset,
            )
        )

    followed = AbortedProducers(
        answer_with_aborted(AbortedTransaction(producer_id=1, first_offset=2))
    )
    batches = [
        transactional(0, 1),
        transactional(2, 1),
        transactional(3, 2),
        aborted(4, 1),
        transactional(5, 1),
    ]
    assert [followed.covers(batch) for batch in batches] == [False, True, False, False, False]


def test_whoever_reads_uncommitted_sees_all() -> None:
    builder = BatchBuilder(producer_id=1, is_transactional=True)
    builder.append(0, None, b"")
    assert not AbortedProducers(answer_with_aborted()).covers(RecordBatch.parse(builder.build()))


def answer_with_aborted(*transactions: AbortedTransaction) -> PartitionData:
    return PartitionData(
        partition_index=0,
        error_code=0,
        high_watermark=9,
        aborted_transactions=transactions,
        records=None,
    )
