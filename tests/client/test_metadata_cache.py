"""The metadata cache keeps the newest leader of each partition."""

import pytest

from pykbroker.address import Address
from pykbroker.client.metadata_cache import MetadataCache
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

TOPIC_ID, OTHER_ID = b"1" * 16, b"2" * 16


def partition(index: int, leader: int, epoch: int) -> MetadataResponsePartition:
    return MetadataResponsePartition(
        error_code=0,
        partition_index=index,
        leader_id=leader,
        leader_epoch=epoch,
        replica_nodes=(1, 2),
        isr_nodes=(1, 2),
    )


def topic(
    *partitions: MetadataResponsePartition,
    name: str = "trucks",
    topic_id: bytes = TOPIC_ID,
    error: ErrorCode = ErrorCode.NONE,
) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=error, name=name, topic_id=topic_id, partitions=partitions
    )


def response(*topics: MetadataResponseTopic) -> MetadataResponse:
    brokers = [MetadataResponseBroker(node_id=1, host="a", port=9092)]
    return MetadataResponse(brokers=brokers, topics=topics)


def leaders_after(*topics: MetadataResponseTopic) -> list[int]:
    cache = MetadataCache()
    for each in topics:
        cache.update(response(each), is_complete=False)
    found = cache.topic("trucks")
    assert found is not None
    return [it.leader_id for it in found.partitions]


@pytest.mark.parametrize(
    ("epoch", "topic_id", "leader"),
    [
        (6, TOPIC_ID, 2),  # newer
        (5, TOPIC_ID, 2),
        (4, TOPIC_ID, 1),  # older: from a broker that lags behind
        (-1, TOPIC_ID, 2),  # the broker does not send epochs
        (0, OTHER_ID, 2),  # the topic was recreated
    ],
)
def test_an_older_leader_epoch_does_not_replace_a_newer_one(
    epoch: int, topic_id: bytes, leader: int
) -> None:
    later = topic(partition(0, 2, epoch), topic_id=topic_id)
    assert leaders_after(topic(partition(0, 1, 5)), later) == [leader]


def test_partitions_are_in_order_and_removed_ones_disappear() -> None:
    first = topic(partition(2, 3, 0), partition(0, 1, 0), partition(1, 2, 0))
    assert leaders_after(first) == [1, 2, 3]
    assert leaders_after(first, topic(partition(0, 1, 0))) == [1]


def test_a_topic_with_an_error_is_removed_from_the_cache() -> None:
    cache = MetadataCache()
    cache.update(response(topic(partition(0, 1, 0))), is_complete=False)
    missing = topic(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    cache.update(response(missing), is_complete=False)
    assert cache.topic("trucks") is None


def test_only_a_complete_response_removes_topics_that_it_lacks() -> None:
    cache = MetadataCache()
    cache.update(response(topic(partition(0, 1, 0))), is_complete=False)
    cache.update(response(), is_complete=False)
    assert cache.topic("trucks") is not None
    assert cache.brokers == {1: Address("a", 9092)}
    cache.update(response(), is_complete=True)
    assert cache.topic("trucks") is None
