"""Killed publishers and replays write each record once on Apache Kafka, too."""

from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat.apache import ApacheKafka
from pykbroker.pipeline.archive.batch_record import OffsetRange
from pykbroker.pipeline.verify import Verdict, verify
from pykbroker.pipeline.verify_broker import cluster
from tests.pipeline.archive_files import write_offsets
from tests.pipeline.engine_process import WAS_KILLED, run

PUBLISHING = Path(__file__).with_name("publishing_engine.py")
REPLAYING = Path(__file__).parents[1] / "replay" / "replaying_engine.py"
KILLS = ("PRODUCING:37", "PRODUCED:2", "MARKED:2", "PUBLISHED:2")


@pytest.fixture
def bootstrap(apache: ApacheKafka) -> str:
    admin = AdminClient({"bootstrap.servers": apache.bootstrap})
    topics = {"out": 3, "again": 2, "trucks": 2}
    missing = [
        NewTopic(name, count, 1, config={"retention.ms": "-1"})  # the records are of 1970
        for name, count in topics.items()
        if name not in admin.list_topics(timeout=60).topics
    ]
    for created in admin.create_topics(missing).values() if missing else ():
        created.result(60)
    return apache.bootstrap


def committed(bootstrap: str, topic: str, partition: int) -> list[bytes | None]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "reader", "enable.partition.eof": True}
    )
    consumer.assign([TopicPartition(topic, partition, 0)])
    values: list[bytes | None] = []
    while True:
        message = consumer.poll(60)
        assert message is not None, "no record and no end of the partition"
        if (error := message.error()) is not None:
            assert error.code() == KafkaError._PARTITION_EOF
            consumer.close()
            return values
        values.append(message.value())


def test_a_killed_publisher_publishes_once_on_apache(bootstrap: str, tmp_path: Path) -> None:
    for point in KILLS:
        slots = 2 if point.startswith("MARKED") else 3
        killed = run(PUBLISHING, bootstrap, tmp_path, 3, slots, environment={"KILL_AT": point})
        assert killed == WAS_KILLED, point
    assert run(PUBLISHING, bootstrap, tmp_path, 3, 3) == 0
    found = [value for partition in range(3) for value in committed(bootstrap, "out", partition)]
    assert sorted(int(value or b"") for value in found) == list(range(600))


def test_a_killed_replay_replays_once_on_apache(bootstrap: str, tmp_path: Path) -> None:
    write_offsets(tmp_path, (0, range(100)), (1, range(100)))
    for point in KILLS:
        killed = run(REPLAYING, bootstrap, tmp_path, environment={"KILL_AT": point})
        assert killed == WAS_KILLED, point
    assert run(REPLAYING, bootstrap, tmp_path) == 0
    for partition in range(2):
        expected = [f"{partition}:{offset}".encode() for offset in range(100)]
        assert committed(bootstrap, "again", partition) == expected


def test_markers_on_apache_are_not_gaps(bootstrap: str, tmp_path: Path) -> None:
    """The previous replay wrote transaction markers and aborted transactions."""
    write_offsets(tmp_path / "source", (0, range(60)))
    run(REPLAYING, bootstrap, tmp_path / "source")
    with cluster(bootstrap, {}) as topics:
        end = topics.bounds("again", 0).last
        each = [OffsetRange(offset, offset) for offset in range(end)]
        found = [it for it in topics.first_records("again", 0, each) if it is not None]
    assert len(found) < end
    lake = tmp_path / "lake"
    write_offsets(lake, (0, found))
    (lake / "topic=trucks").rename(lake / "topic=again")
    with cluster(bootstrap, {}) as topics:
        report = next(it for it in verify(lake, topics).partitions if it.partition == 0)
    assert report.verdict is Verdict.PROVED
    assert not report.is_behind
