"""Requests are retried after the action that their error requires, until a deadline."""

import pytest

from pykbroker.client.consumer import READ_UNCOMMITTED, Consumer, Position
from pykbroker.client.coordinator import TIMEOUT_SECONDS as COORDINATOR_TIMEOUT_SECONDS
from pykbroker.client.coordinator import Coordinator, request_when_loaded
from pykbroker.client.errors import ApiError, ClientError, Disconnected, InvalidResponse, TimedOut
from pykbroker.client.group_member import GroupMember
from pykbroker.client.log_offsets import LATEST, log_offsets
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.message import Message
from pykbroker_protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from pykbroker_protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from pykbroker_protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from pykbroker_protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from pykbroker_protocol.records.builder import BatchBuilder
from tests.client.scripted_client import TOPIC, ScriptedClient, topic_led_by

LOST = Disconnected("lost")


# Metadata of a topic


@pytest.mark.parametrize(
    "passing", [topic_led_by(error=ErrorCode.LEADER_NOT_AVAILABLE), LOST, TimedOut("late")]
)
async def test_a_topic_is_requested_again_after_a_passing_failure(passing: object) -> None:
    client = ScriptedClient(topics=[passing, topic_led_by(1)])  # type: ignore[list-item]
    assert (await client.topic(TOPIC)).name == TOPIC
    assert client.clock.seconds > 0


@pytest.mark.parametrize(
    ("error", "may_create", "is_retried"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False, False),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True, True),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, True, False),
        (ErrorCode.LEADER_NOT_AVAILABLE, False, True),
    ],
)
async def test_a_topic_error_is_raised_at_once_or_at_the_deadline(
    error: ErrorCode,
    may_create: bool,  # noqa: FBT001 - of the table
    is_retried: bool,  # noqa: FBT001 - likewise
) -> None:
    client = ScriptedClient(topics=[topic_led_by(error=error)])
    with pytest.raises(ApiError) as raised:
        await client.topic(TOPIC, may_create=may_create)
    assert raised.value.code is error
    assert (client.clock.seconds > 0) is is_retried


async def test_a_topic_of_an_unreachable_cluster_is_an_error_at_the_deadline() -> None:
    client = ScriptedClient(topics=[LOST])
    with pytest.raises(Disconnected):
        await client.topic(TOPIC)
    assert client.clock.seconds > 0


# Coordinators


def heartbeat(error: ErrorCode = ErrorCode.NONE) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=error)


async def send_heartbeat(client: ScriptedClient) -> ErrorCode:
    response = await Coordinator(client, "group").request(
        HeartbeatRequest(group_id="group", generation_id=0, member_id="m"),
        HeartbeatResponse,
        lambda response: response.error_code,
    )
    return ErrorCode(response.error_code)  # type: ignore[call-arg]  # looks a member up


@pytest.mark.parametrize(
    "failure",
    [
        heartbeat(ErrorCode.NOT_COORDINATOR),
        heartbeat(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        heartbeat(ErrorCode.COORDINATOR_NOT_AVAILABLE),
        LOST,
    ],
)
async def test_a_coordinator_that_moved_is_looked_up_again(failure: Message | Exception) -> None:
    client = ScriptedClient(failure, heartbeat(), coordinators=(1, 2))
    assert await send_heartbeat(client) is ErrorCode.NONE
    assert client.nodes == [1, 2]


async def test_errors_of_a_group_are_returned_without_retry() -> None:
    client = ScriptedClient(heartbeat(ErrorCode.REBALANCE_IN_PROGRESS))
    assert await send_heartbeat(client) is ErrorCode.REBALANCE_IN_PROGRESS
    assert client.nodes == [1]


@pytest.mark.parametrize("failure", [heartbeat(ErrorCode.NOT_COORDINATOR), LOST])
async def test_a_coordinator_that_is_never_found_is_an_error_at_the_deadline(
    failure: Message | Exception,
) -> None:
    client = ScriptedClient(failure)
    with pytest.raises(ClientError):
        await send_heartbeat(client)
    assert client.clock.seconds >= COORDINATOR_TIMEOUT_SECONDS


async def test_a_coordinator_is_polled_while_it_loads() -> None:
    client = ScriptedClient(heartbeat(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), heartbeat())
    request = HeartbeatRequest(group_id="group", generation_id=0, member_id="m")
    await request_when_loaded(client, request, HeartbeatResponse, lambda it: it.error_code, 2)
    assert client.nodes == [2, 2]


# ListOffsets


def end_offset(offset: int, error: ErrorCode = ErrorCode.NONE) -> ListOffsetsResponse:
    partition = ListOffsetsPartitionResponse(partition_index=0, error_code=error, offset=offset)
    return ListOffsetsResponse(
        topics=[ListOffsetsTopicResponse(name=TOPIC, partitions=[partition])]
    )


async def test_offsets_are_requested_from_the_new_leader() -> None:
    moved = end_offset(-1, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    client = ScriptedClient(moved, end_offset(7), topics=[topic_led_by(2)])
    assert await log_offsets(client, topic_led_by(1), LATEST) == {0: 7}
    assert client.nodes == [1, 2]


async def test_a_final_error_of_list_offsets_is_raised_at_once() -> None:
    client = ScriptedClient(end_offset(-1, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(ApiError):
        await log_offsets(client, topic_led_by(1), LATEST)
    assert client.nodes == [1]


# Consumers


def batch(offset: int, value: bytes) -> bytes:
    builder = BatchBuilder(base_offset=offset)
    builder.append(0, None, value)
    return bytes(builder.build())


def fetched(*partitions: tuple[int, ErrorCode, bytes]) -> FetchResponse:
    data = [
        PartitionData(
            partition_index=index,
            error_code=error,
            high_watermark=9,
            aborted_transactions=None,
            records=records,
        )
        for index, error, records in partitions
    ]
    return FetchResponse(responses=[FetchableTopicResponse(topic=TOPIC, partitions=data)])


async def consume(client: ScriptedClient, *partitions: int, end: int = 1) -> list[bytes | None]:
    positions = [Position(partition=it, offset=0, end=end) for it in partitions]
    topic = topic_led_by(*(1 for _ in partitions))
    consumer = Consumer(client, topic, positions, READ_UNCOMMITTED)
    return [record.value async for _, records in consumer.records() for record in records]


RECORD = fetched((0, ErrorCode.NONE, batch(0, b"value")))


@pytest.mark.parametrize(
    "failure", [fetched((0, ErrorCode.NOT_LEADER_OR_FOLLOWER, b"")), LOST, TimedOut("late")]
)
async def test_a_fetch_continues_at_the_new_leader(failure: Message | Exception) -> None:
    client = ScriptedClient(failure, RECORD, topics=[topic_led_by(2)])
    assert await consume(client, 0) == [b"value"]
    assert client.nodes == [1, 2]


def with_wrong_crc(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


@pytest.mark.parametrize(
    ("response", "error", "text"),
    [
        (fetched((0, ErrorCode.OFFSET_OUT_OF_RANGE, b"")), ApiError, "does not contain offset 0"),
        (fetched((0, ErrorCode.TOPIC_AUTHORIZATION_FAILED, b"")), ApiError, "AUTHORIZATION"),
        (fetched((0, ErrorCode.CORRUPT_MESSAGE, b"")), ApiError, "CORRUPT_MESSAGE"),
        (fetched((5, ErrorCode.NONE, b"")), InvalidResponse, "partition 5, not requested"),
        (
            fetched((0, ErrorCode.NONE, with_wrong_crc(batch(0, b"value")))),
            ApiError,
            "partition 0, offset 0: CRC mismatch",
        ),
    ],
)
async def test_a_fetch_that_cannot_be_retried_fails(
    response: FetchResponse, error: type[ClientError], text: str
) -> None:
    with pytest.raises(error, match=text):
        await consume(ScriptedClient(response), 0)


async def test_partitions_that_returned_records_are_last_in_the_next_fetch() -> None:
    first = fetched((0, ErrorCode.NONE, batch(0, b"a")), (1, ErrorCode.NONE, b""))
    rest = fetched((0, ErrorCode.NONE, batch(1, b"b")), (1, ErrorCode.NONE, batch(0, b"c")))
    last = fetched((1, ErrorCode.NONE, batch(1, b"d")))
    client = ScriptedClient(first, rest, last)
    assert await consume(client, 0, 1, end=2) == [b"a", b"b", b"c", b"d"]
    orders = [
        [it.partition for topic in request.topics for it in topic.partitions]
        for request, _ in client.requests
        if isinstance(request, FetchRequest)
    ]
    assert orders == [[0, 1], [1, 0], [1]]


# Group members


def joined(client: ScriptedClient) -> GroupMember:
    member = GroupMember(client, "group", TOPIC)
    member._membership = member._membership._replace(member_id="m-1", generation=3)
    return member


@pytest.mark.parametrize(
    ("error", "member_id"),
    [
        (ErrorCode.REBALANCE_IN_PROGRESS, "m-1"),
        (ErrorCode.ILLEGAL_GENERATION, "m-1"),
        (ErrorCode.UNKNOWN_MEMBER_ID, ""),
    ],
)
async def test_a_member_rejoins_with_its_id_unless_it_was_evicted(
    error: ErrorCode, member_id: str
) -> None:
    client = ScriptedClient(heartbeat(error), refused_join())
    member = joined(client)
    assert not await member.heartbeat()
    with pytest.raises(ApiError, match="GROUP_AUTHORIZATION_FAILED"):
        await member.join()
    request, _ = client.requests[-1]
    assert isinstance(request, JoinGroupRequest)
    assert request.member_id == member_id


def refused_join() -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED,
        generation_id=-1,
        protocol_name="",
        leader="",
        member_id="",
        members=(),
    )
