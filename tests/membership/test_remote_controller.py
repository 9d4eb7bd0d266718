"""Commands of a broker to an active controller of another process."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from pykbroker.apis.producer_ids import ProducerIds
from pykbroker.controller_access import ControllerAccess, ControllerUnavailable, NewTopic
from pykbroker.membership.remote_controller import RemoteController
from pykbroker.metadata.image import TopicImage
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from pykbroker_protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from tests.membership.scripted_channel import ScriptedChannel

if TYPE_CHECKING:
    from pykbroker_protocol.message import Message


def controller_with(*outcomes: Message | Exception) -> tuple[ControllerAccess, ScriptedChannel]:
    channel = ScriptedChannel(*outcomes)
    return RemoteController(channel, broker_id=4, broker_epoch=lambda: 77), channel


def block(start: int, count: int, code: ErrorCode = ErrorCode.NONE) -> AllocateProducerIdsResponse:
    return AllocateProducerIdsResponse(
        error_code=code, producer_id_start=start, producer_id_len=count
    )


async def test_a_block_of_producer_ids_is_allocated_with_the_broker_epoch() -> None:
    controller, channel = controller_with(block(5000, 1000))
    assert await controller.allocate_producer_ids() == range(5000, 6000)
    assert channel.requests == [AllocateProducerIdsRequest(broker_id=4, broker_epoch=77)]


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (block(0, 0, ErrorCode.STALE_BROKER_EPOCH), ErrorCode.STALE_BROKER_EPOCH),
        (block(0, 0), ErrorCode.UNKNOWN_SERVER_ERROR),
        (block(-1, 5), ErrorCode.UNKNOWN_SERVER_ERROR),
        (ControllerUnavailable("none"), ErrorCode.REQUEST_TIMED_OUT),
    ],
)
async def test_a_failed_allocation_is_a_refusal(
    outcome: Message | Exception, code: ErrorCode
) -> None:
    controller, _ = controller_with(outcome)
    refused = await controller.allocate_producer_ids()
    assert isinstance(refused, Refusal)
    assert refused.code is code


async def test_requests_that_wait_for_a_block_share_one_allocation() -> None:
    controller, channel = controller_with(block(10, 2), block(20, 2))
    producer_ids = ProducerIds(controller)
    taken = await asyncio.gather(*(producer_ids.take_from_next_block() for _ in range(4)))
    assert sorted(map(str, taken)) == ["10", "11", "20", "21"]
    assert len(channel.requests) == 2


async def test_requests_that_wait_for_a_block_share_its_refusal() -> None:
    controller, channel = controller_with(ControllerUnavailable("none"), block(10, 2))
    producer_ids = ProducerIds(controller)
    refused = await asyncio.gather(*(producer_ids.take_from_next_block() for _ in range(4)))
    assert all(isinstance(it, Refusal) for it in refused)
    assert len(channel.requests) == 1
    assert await producer_ids.take_from_next_block() == 10


async def test_a_cancelled_request_does_not_cancel_the_allocation_of_others() -> None:
    controller, channel = controller_with()
    producer_ids = ProducerIds(controller)
    first = asyncio.ensure_future(producer_ids.take_from_next_block())
    second = asyncio.ensure_future(producer_ids.take_from_next_block())
    await asyncio.sleep(0.01)
    first.cancel()
    channel.outcomes = [block(10, 1)]
    await asyncio.sleep(0)
    assert not second.done()
    second.cancel()
    await asyncio.gather(first, second, return_exceptions=True)
    assert len(channel.requests) == 1


async def test_outcomes_of_created_topics_have_the_order_of_the_request() -> None:
    results = [
        CreatableTopicResult(name="b", topic_id=b"b" * 16, error_code=0, error_message=None),
        CreatableTopicResult(
            name="a", error_code=ErrorCode.INVALID_REPLICATION_FACTOR, error_message="too many"
        ),
    ]
    controller, _ = controller_with(CreateTopicsResponse(topics=results))
    outcomes = await controller.create_topics([NewTopic(name=it) for it in ("a", "b", "c")])
    assert outcomes[:2] == [
        Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, "too many"),
        TopicImage(name="b", id=b"b" * 16),
    ]
    assert isinstance(outcomes[2], Refusal)


async def test_an_unavailable_controller_refuses_every_topic() -> None:
    controller, _ = controller_with(ControllerUnavailable("none"))
    outcomes = await controller.create_topics([NewTopic(name=it) for it in ("a", "b")])
    assert outcomes == [Refusal(ErrorCode.REQUEST_TIMED_OUT, "none")] * 2
