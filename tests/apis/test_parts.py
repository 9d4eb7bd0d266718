"""Large requests are divided into parts, and the responses are joined."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykbroker.apis import APIS
from pykbroker.apis.parts import Joined, elements_in, parts_of
from pykbroker_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from pykbroker_protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)


def commit(*partitions: int) -> OffsetCommitRequest:
    """Returns a request with this number of partitions per topic."""
    return OffsetCommitRequest(
        group_id="g",
        member_id="",
        topics=[
            OffsetCommitRequestTopic(
                name=f"topic-{number}",
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=it, committed_offset=it, committed_metadata=""
                    )
                    for it in range(count)
                ],
            )
            for number, count in enumerate(partitions)
        ],
    )


def answered(request: Any) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=it.partition_index, error_code=it.partition_index % 3
                    )
                    for it in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


@given(st.lists(st.integers(0, 30), max_size=8), st.integers(1, 20))
def test_joined_responses_to_parts_equal_the_response_to_the_whole(
    partitions: list[int], elements_max: int
) -> None:
    request = commit(*partitions)
    joined = Joined()
    for part in parts_of(request, "topics", elements_max):
        assert isinstance(part, OffsetCommitRequest)
        assert part.group_id == "g"
        assert elements_in(part) - 1 <= elements_max + 1  # a divided topic is in each part
        joined.add(answered(part))
    assert joined.response() == answered(request)


def test_nested_arrays_are_split_into_parts() -> None:
    topics = [WritableTxnMarkerTopic(name="t", partition_indexes=tuple(range(10)))]
    marker = WritableTxnMarker(
        producer_id=1, producer_epoch=0, transaction_result=True, topics=topics, coordinator_epoch=0
    )
    parts: list[Any] = list(parts_of(WriteTxnMarkersRequest(markers=[marker]), "markers", 4))
    shares = [list(part.markers[0].topics[0].partition_indexes) for part in parts]
    assert shares == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


@pytest.mark.parametrize(
    "api", [api for api in APIS.values() if api.divided], ids=lambda it: it.name
)
def test_the_divided_array_is_a_field_of_the_request(api: Any) -> None:
    (field,) = [it for it in api.request_type.fields if it.name == api.divided]
    assert field.is_array
    request = api.request_type(**{api.divided: ()})
    assert list(parts_of(request, api.divided, 5)) == [request]
