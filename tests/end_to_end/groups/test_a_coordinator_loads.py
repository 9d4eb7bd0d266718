"""Responses while a coordinator loads its partition; the error codes are Apache Kafka's.

They were recorded on a stock 4.3.1 with 300 MB of offsets to load.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from pykbroker_protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from pykbroker_protocol.messages.delete_groups import DeleteGroupsRequest
from pykbroker_protocol.messages.describe_groups import DescribeGroupsRequest
from pykbroker_protocol.messages.find_coordinator import FindCoordinatorRequest
from pykbroker_protocol.messages.heartbeat import HeartbeatRequest
from pykbroker_protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from pykbroker_protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from pykbroker_protocol.messages.list_groups import ListGroupsRequest
from pykbroker_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pykbroker_protocol.messages.offset_delete import OffsetDeleteRequest
from pykbroker_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from pykbroker_protocol.messages.sync_group import SyncGroupRequest
from tests.apis.wire import Wire
from tests.end_to_end.groups.writing import create_topic

if TYPE_CHECKING:
    from collections.abc import Callable

    from pykbroker_protocol.message import Message
    from tests.end_to_end.conftest import StartBroker

GROUP, TOPIC = "diary", "log"
SETTINGS = {"offsets.topic.num.partitions": 1}
COMMITS = 1000
PLACES = 100
"""Many small offsets, because their number determines the loading time."""
TIMEOUT_SECONDS = 30.0


class LoadingRequest(NamedTuple):
    request: Message
    version: int
    code_of: Callable[[Any], int]
    while_loading: ErrorCode
    afterwards: ErrorCode


def commit(places: int) -> OffsetCommitRequest:
    partitions = [
        OffsetCommitRequestPartition(
            partition_index=index, committed_offset=1, committed_metadata=""
        )
        for index in range(places)
    ]
    topic = OffsetCommitRequestTopic(name=TOPIC, partitions=partitions)
    return OffsetCommitRequest(group_id=GROUP, member_id="", topics=[topic])


def of_partition(answer: Any) -> int:
    code: int = answer.topics[0].partitions[0].error_code
    return code


def of_answer(answer: Any) -> int:
    code: int = answer.error_code
    return code


def of_group(answer: Any) -> int:
    code: int = answer.groups[0].error_code
    return code


def of_result(answer: Any) -> int:
    code: int = answer.results[0].error_code
    return code


LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
NONE, UNKNOWN = ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID
NOT_FOUND = ErrorCode.GROUP_ID_NOT_FOUND
ONE_PLACE = [OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])]

LOADING_REQUESTS = (
    LoadingRequest(
        HeartbeatRequest(group_id=GROUP, generation_id=1, member_id="m"),
        4,
        of_answer,
        NONE,
        UNKNOWN,
    ),
    LoadingRequest(
        JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id="m",
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        ),
        9,
        of_answer,
        LOADING,
        UNKNOWN,
    ),
    LoadingRequest(
        SyncGroupRequest(
            group_id=GROUP,
            generation_id=1,
            member_id="m",
            protocol_type="consumer",
            protocol_name="range",
            assignments=(),
        ),
        5,
        of_answer,
        LOADING,
        UNKNOWN,
    ),
    LoadingRequest(
        LeaveGroupRequest(group_id=GROUP, members=[MemberIdentity(member_id="m")]),
        5,
        of_answer,
        LOADING,
        NONE,
    ),
    LoadingRequest(commit(1), 8, of_partition, LOADING, NONE),
    LoadingRequest(
        OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=())]),
        8,
        of_group,
        LOADING,
        NONE,
    ),
    LoadingRequest(
        OffsetFetchRequest(group_id=GROUP, topics=ONE_PLACE), 7, of_answer, LOADING, NONE
    ),
    LoadingRequest(
        OffsetFetchRequest(group_id=GROUP, topics=ONE_PLACE), 1, of_partition, LOADING, NONE
    ),
    LoadingRequest(OffsetDeleteRequest(group_id=GROUP, topics=()), 0, of_answer, LOADING, NONE),
    LoadingRequest(ListGroupsRequest(), 5, of_answer, LOADING, NONE),
    LoadingRequest(DescribeGroupsRequest(groups=[GROUP]), 5, of_group, LOADING, NONE),
    LoadingRequest(DeleteGroupsRequest(groups_names=["missing"]), 2, of_result, LOADING, NOT_FOUND),
    LoadingRequest(
        ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id="m", member_epoch=1),
        1,
        of_answer,
        LOADING,
        NOT_FOUND,
    ),
    LoadingRequest(
        ConsumerGroupDescribeRequest(group_ids=[GROUP], include_authorized_operations=False),
        1,
        of_group,
        LOADING,
        NOT_FOUND,
    ),
    LoadingRequest(FindCoordinatorRequest(key=GROUP, key_type=0), 3, of_answer, NONE, NONE),
)


@pytest.mark.slow
def test_requests_during_loading_get_the_error_codes_of_apache_kafka(
    start_broker: StartBroker,
) -> None:
    broker = start_broker(settings=SETTINGS)
    create_topic(broker.bootstrap, TOPIC, PLACES)
    with Wire(broker.port) as wire:
        wait_for_the_coordinator(wire)
        for _ in range(COMMITS):
            assert of_partition(wire.ask(commit(PLACES), 8)) == NONE
    broker.kill()
    broker.start()
    with Wire(broker.port) as wire:
        codes = [row.code_of(wire.ask(row.request, row.version)) for row in LOADING_REQUESTS]
        assert is_loading(wire), "loading ended before the requests were sent"
        assert codes == [row.while_loading for row in LOADING_REQUESTS]
        wait_for_the_coordinator(wire)
        codes = [row.code_of(wire.ask(row.request, row.version)) for row in LOADING_REQUESTS]
        assert codes == [row.afterwards for row in LOADING_REQUESTS]


def wait_for_the_coordinator(wire: Wire) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while of_answer(wire.ask(FindCoordinatorRequest(key=GROUP, key_type=0), 3)) or is_loading(wire):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_loading(wire: Wire) -> bool:
    return of_group(wire.ask(DescribeGroupsRequest(groups=[GROUP]), 5)) != NONE
