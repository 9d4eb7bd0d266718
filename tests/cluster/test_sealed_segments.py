"""Sealed segments of leader and follower are byte-identical in topics that are not compacted."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

if TYPE_CHECKING:
    from pathlib import Path

    from compat.cluster import Cluster

APACHE, OWN, OTHER_OWN = 1, 2, 3
PAIRS = [(APACHE, OWN), (OWN, APACHE), (OWN, OTHER_OWN)]
SEGMENT_BYTES = 1 << 20
RECORDS_OF_HALF = 1500
RECORD_BYTES = 2000

pytestmark = pytest.mark.slow
_names = (f"sealed-{number}" for number in itertools.count())


def produce(cluster: Cluster, topic: str) -> None:
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 2,
            "batch.size": 30_000,
        }
    )
    for number in range(RECORDS_OF_HALF):
        producer.produce(topic, value=b"%08d" % number * (RECORD_BYTES // 8))
        producer.poll(0)
    assert producer.flush(60) == 0


def segments(data_dir: Path, topic: str) -> dict[str, Path]:
    return {it.name: it for it in sorted((data_dir / f"{topic}-0").glob("*.log"))}


@pytest.mark.parametrize(("leader", "follower"), PAIRS)
def test_sealed_segments_are_byte_identical(cluster: Cluster, leader: int, follower: int) -> None:
    topic = next(_names)
    cluster.create_topic(topic, {0: (leader, follower)}, segment_bytes=SEGMENT_BYTES)
    produce(cluster, topic)
    cluster.nodes[follower].kill()
    cluster.wait_until_fenced(follower)
    produce(cluster, topic)
    cluster.bring_back()
    cluster.wait_until_in_sync(topic)
    expect_identical_sealed_segments(cluster, topic, leader, follower)


@pytest.mark.parametrize(("leader", "follower"), PAIRS)
def test_sealed_segments_of_a_refilled_follower_are_byte_identical(
    cluster: Cluster, leader: int, follower: int
) -> None:
    topic = next(_names)
    cluster.create_topic(topic, {0: (leader, follower)}, segment_bytes=SEGMENT_BYTES)
    produce(cluster, topic)
    produce(cluster, topic)
    cluster.nodes[follower].kill()
    cluster.wait_until_fenced(follower)
    cluster.wipe(follower)
    cluster.bring_back()
    cluster.wait_until_in_sync(topic)
    expect_identical_sealed_segments(cluster, topic, leader, follower)


def expect_identical_sealed_segments(
    cluster: Cluster, topic: str, leader: int, follower: int
) -> None:
    led, followed = (segments(cluster.nodes[it].data_dir, topic) for it in (leader, follower))
    assert list(led) == list(followed)
    sealed = list(led)[:-1]
    assert len(sealed) > 3
    for name in sealed:
        assert led[name].read_bytes() == followed[name].read_bytes(), name
