"""A group on two equal brokers: its members and their commits."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar, cast

import pytest

from pykbroker.controller_access import NewTopic
from pykbroker.coordination.groups.settings import GroupSettings
from pykbroker.internal_topics import CONSUMER_OFFSETS
from pykbroker_protocol.compiler import decode
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.frame import read_response_header, write_request
from pykbroker_protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from pykbroker_protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from pykbroker_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from pykbroker_protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from pykbroker_protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.apis.two_brokers import two_brokers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from pykbroker.coordinators.group_log import GroupLog
    from pykbroker_protocol.message import Message
    from tests.apis.two_brokers import Side, TwoBrokers

AnyMessage = TypeVar("AnyMessage", bound="Message")

GROUP = "readers"
NEWEST = 10
FIRST_TOPIC_ID = bytes(15) + b"\x04"
PRODUCER_ID = 7


@asynccontextmanager
async def groups_on_two_brokers(directory: Path, **topic: Any) -> AsyncIterator[TwoBrokers]:
    async with two_brokers(directory, **topic) as brokers:
        offsets = NewTopic(
            name=CONSUMER_OFFSETS, partitions=1, configuration={"cleanup.policy": "compact"}
        )
        await brokers.each(lambda it: it.controller.create_topics([offsets]))
        yield brokers
        assert offsets_state(brokers.fast) == offsets_state(brokers.general)
        assert timers(brokers.fast) == pytest.approx(timers(brokers.general), abs=5)


def log_of(side: Side) -> GroupLog:
    log = side.broker.groups.find(GROUP)
    assert not isinstance(log, ErrorCode), log
    return cast("GroupLog", log)


def offsets_state(side: Side) -> tuple[object, ...]:
    log = log_of(side)
    return vars(log.state.offsets), set(log.state.groups), log._last_written


def timers(side: Side) -> dict[tuple[str, ...], float]:
    return log_of(side)._timers._due_seconds


def commit(
    offsets: Mapping[int, int],
    *,
    version: int = NEWEST,
    topic_id: bytes = FIRST_TOPIC_ID,
    correlation_id: int = 1,
    metadata: str | None = "",
    topics: int = 1,
    **fields: Any,
) -> bytes:
    partitions = [
        OffsetCommitRequestPartition(
            partition_index=index, committed_offset=offset, committed_metadata=metadata
        )
        for index, offset in offsets.items()
    ]
    topic = OffsetCommitRequestTopic(name="trucks", topic_id=topic_id, partitions=partitions)
    message = OffsetCommitRequest(
        **{"group_id": GROUP, "member_id": "", "topics": [topic] * topics, **fields}
    )
    return b"".join(write_request(message, version, correlation_id, "fleet"))


def understood(answer: object, message: type[AnyMessage], version: int) -> AnyMessage:
    assert isinstance(answer, bytes)
    _, position = read_response_header(answer, message, version)
    return decode(message, version, answer, position)


def codes(answer: object, version: int) -> set[int]:
    response = understood(answer, OffsetCommitResponse, version)
    return {it.error_code for topic in response.topics for it in topic.partitions}


def topic_id_of(brokers: TwoBrokers) -> bytes:
    return brokers.fast.broker.image.topics["trucks"].id


async def classic_member(brokers: TwoBrokers) -> tuple[str, int]:
    """A classic group with one member that has its assignment."""
    join = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    for side in (brokers.general, brokers.fast):
        side.broker.groups.configure(
            GroupSettings(initial_rebalance_delay_ms=0),
            side.broker.groups.consumer_settings,
        )
    joined = brokers.ask(b"".join(write_request(join, 3, 1, "fleet")))
    response = understood(joined, JoinGroupResponse, 3)
    sync = SyncGroupRequest(
        group_id=GROUP,
        generation_id=response.generation_id,
        member_id=response.member_id,
        assignments=[SyncGroupRequestAssignment(member_id=response.member_id, assignment=b"all")],
    )
    brokers.ask(b"".join(write_request(sync, 3, 1, "fleet")))
    return response.member_id, response.generation_id


async def consumer_member(brokers: TwoBrokers) -> None:
    """A consumer group with one member at epoch 2."""
    anna_is_here(brokers, 0)
    for _ in range(3):
        await asyncio.sleep(0)  # the coordinator computes a target, then the member reaches it


def anna_is_here(brokers: TwoBrokers, epoch: int) -> None:
    for side in (brokers.general, brokers.fast):
        heartbeat = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id="anna",
            member_epoch=epoch,
            rebalance_timeout_ms=10_000,
            subscribed_topic_names=["trucks"],
            topic_partitions=[],
        )
        log_of(side).write_if_active(
            log_of(side).state.consumer_group_heartbeat(
                heartbeat,
                version=1,
                ticket=0,
                client_id="fleet",
                client_host="/127.0.0.1",
                new_member_id="",
                now_ms=side.broker.clock.now_ms(),
            )
        )


def delete_group(brokers: TwoBrokers) -> None:
    for side in (brokers.general, brokers.fast):
        log = log_of(side)
        log.write_if_active(log.state.delete_groups([GROUP], ticket=0, now_ms=1))


def commit_in_transaction(brokers: TwoBrokers, partition: int) -> None:
    it = TxnOffsetCommitRequestPartition(
        partition_index=partition, committed_offset=17, committed_metadata=""
    )
    request = TxnOffsetCommitRequest(
        transactional_id="t",
        group_id=GROUP,
        producer_id=PRODUCER_ID,
        producer_epoch=0,
        topics=[TxnOffsetCommitRequestTopic(name="trucks", partitions=[it])],
    )
    for side in (brokers.general, brokers.fast):
        log = log_of(side)
        log.write_if_active(log.state.txn_offset_commit(request, version=3, ticket=0, now_ms=1))


def end_transaction(brokers: TwoBrokers, *, committed: bool) -> None:
    for side in (brokers.general, brokers.fast):
        log_of(side).state.transaction_ended(PRODUCER_ID, committed=committed)
