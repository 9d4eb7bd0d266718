"""A follower that is behind the log start offset of its leader continues there."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from compat.wire import Wire
from pykbroker_protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)

if TYPE_CHECKING:
    from compat.cluster import Cluster

APACHE, OWN, OTHER_OWN = 1, 2, 3
BEFORE, WHILE_DOWN = 10, 40
LOG_START = 33
"""Within a batch."""
DELETE_RECORDS_VERSION = 2

pytestmark = pytest.mark.slow
_names = (f"deleted-{number}" for number in itertools.count())


def produce(cluster: Cluster, topic: str, numbers: range) -> None:
    """Writes the numbers as one batch or few batches."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 200})
    for number in numbers:
        producer.produce(topic, value=b"%d" % number)
    assert producer.flush(60) == 0


def delete_records(cluster: Cluster, topic: str, leader: int, offset: int) -> None:
    request = DeleteRecordsRequest(
        topics=[
            DeleteRecordsTopic(
                name=topic, partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)]
            )
        ],
        timeout_ms=30_000,
    )
    with Wire(cluster.nodes[leader].port) as wire:
        (row,) = wire.ask(request, DELETE_RECORDS_VERSION).topics[0].partitions
    assert (row.error_code, row.low_watermark) == (0, offset)


def read_all(cluster: Cluster, topic: str, count: int) -> list[tuple[int | None, bytes | None]]:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
        }
    )
    consumer.assign([TopicPartition(topic, 0, LOG_START)])
    try:
        messages = consumer.consume(count, timeout=30)
    finally:
        consumer.close()
    return [(it.offset(), it.value()) for it in messages]


@pytest.mark.parametrize(("leader", "follower"), [(APACHE, OWN), (OWN, APACHE), (OWN, OTHER_OWN)])
@pytest.mark.parametrize("state", ["behind", "wiped"])
def test_follower_continues_at_the_log_start_of_the_leader(
    cluster: Cluster, leader: int, follower: int, state: str
) -> None:
    topic = next(_names)
    cluster.create_topic(topic, {0: (leader, follower)})
    produce(cluster, topic, range(BEFORE))
    cluster.nodes[follower].kill()
    cluster.wait_until_fenced(follower)
    produce(cluster, topic, range(BEFORE, BEFORE + WHILE_DOWN))
    delete_records(cluster, topic, leader, LOG_START)
    if state == "wiped":
        cluster.wipe(follower)
    cluster.bring_back()
    cluster.wait_until_in_sync(topic)
    cluster.lead(topic, {0: (follower, leader)})
    expected = [(number, b"%d" % number) for number in range(LOG_START, BEFORE + WHILE_DOWN)]
    assert read_all(cluster, topic, len(expected)) == expected
