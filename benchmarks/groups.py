"""Requests of the benchmarks to a group coordinator."""

import socket
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from benchmarks.wire import receive_frame
from pykbroker_protocol.compiler import decode
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.frame import read_response_header, write_request, write_response
from pykbroker_protocol.message import Message
from pykbroker_protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pykbroker_protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from pykbroker_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from pykbroker_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)

AnyMessage = TypeVar("AnyMessage", bound=Message)

CLIENT_ID = "bench"
CORRELATION_ID = 7
COMMIT_VERSION, FETCH_VERSION, _FIND_VERSION = 9, 9, 4
_GROUP_KEY_TYPE = 0
_COORDINATOR_TIMEOUT_SECONDS = 30.0
_IN_FLIGHT = 100
_MARK = 0x7ABC


class NotServedError(RuntimeError):
    """The broker does not support an API that a workload needs, or is not ready."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitFrames:
    """An OffsetCommit of one partition, and the position of the error code in its response."""

    request: bytes
    error_position: int  # in the response including its size prefix


def commit_frames(group: str, topic: str, partition: int) -> CommitFrames:
    marked = OffsetCommitResponseTopic(
        name=topic,
        partitions=[OffsetCommitResponsePartition(partition_index=partition, error_code=_MARK)],
    )
    parts = write_response(OffsetCommitResponse(topics=[marked]), COMMIT_VERSION, CORRELATION_ID)
    answer = bytes(4) + b"".join(parts)
    return CommitFrames(
        request=commit_frame(group, topic, {partition: 42}),
        error_position=answer.rindex(_MARK.to_bytes(2, "big")),
    )


def commit_frame(group: str, topic: str, offsets: dict[int, int]) -> bytes:
    """Builds a commit of a consumer with manual assignment."""
    partitions = [
        OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=""
        )
        for partition, offset in offsets.items()
    ]
    committed = OffsetCommitRequestTopic(name=topic, partitions=partitions)
    return framed(OffsetCommitRequest(group_id=group, member_id="", topics=[committed]), 9)


def refused_commits(answer: bytes) -> set[int]:
    response = read_answer(answer, OffsetCommitResponse, COMMIT_VERSION)
    codes = {it.error_code for topic in response.topics for it in topic.partitions}
    return codes - {ErrorCode.NONE}


def offsets_are_served(
    port: int, groups: Iterable[str], topic: str, offsets: dict[int, int]
) -> bool:
    """Returns whether all groups have these committed offsets."""
    asked = OffsetFetchRequestTopics(name=topic, partition_indexes=list(offsets))
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group, topics=[asked]) for group in groups]
    )
    (answer,) = ask(port, [framed(request, FETCH_VERSION)])
    return all(
        group.error_code == ErrorCode.NONE
        and {
            it.partition_index: it.committed_offset
            for found in group.topics
            for it in found.partitions
            if it.error_code == ErrorCode.NONE
        }
        == offsets
        for group in read_answer(answer, OffsetFetchResponse, FETCH_VERSION).groups
    )


def wait_for_coordinator(port: int, groups: Sequence[str]) -> None:
    """Waits until groups are served; the first request creates the offsets topic."""
    deadline = time.monotonic() + _COORDINATOR_TIMEOUT_SECONDS
    while not (_has_coordinators(port, groups) and offsets_are_served(port, groups, "", {})):
        if time.monotonic() > deadline:
            raise NotServedError("no coordinator for groups")
        time.sleep(0.05)


def _has_coordinators(port: int, groups: Sequence[str]) -> bool:
    request = FindCoordinatorRequest(key_type=_GROUP_KEY_TYPE, coordinator_keys=list(groups))
    (answer,) = ask(port, [framed(request, _FIND_VERSION)])
    response = read_answer(answer, FindCoordinatorResponse, _FIND_VERSION)
    return all(it.error_code == ErrorCode.NONE for it in response.coordinators)


def serves(port: int, api_key: int) -> bool:
    (answer,) = ask(port, [framed(ApiVersionsRequest(), 0)])
    response = read_answer(answer, ApiVersionsResponse, 0)
    return any(it.api_key == api_key for it in response.api_keys)


def ask(port: int, requests: Iterable[bytes]) -> Iterator[bytes]:
    """Sends the requests on a new connection, a hundred at a time; yields the responses."""
    left = iter(requests)
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        while window := list(islice(left, _IN_FLIGHT)):
            connection.sendall(b"".join(window))
            for _ in window:
                yield receive_frame(connection)


def framed(request: Message, version: int) -> bytes:
    body = b"".join(write_request(request, version, CORRELATION_ID, CLIENT_ID))
    return len(body).to_bytes(4, "big") + body


def read_answer(answer: bytes, message: type[AnyMessage], version: int) -> AnyMessage:
    frame = memoryview(answer)[4:]
    _, position = read_response_header(frame, message, version)
    return decode(message, version, frame, position)
