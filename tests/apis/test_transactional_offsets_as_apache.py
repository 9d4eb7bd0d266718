"""Compares batches of transactional offsets with those of Apache Kafka."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from compat.apache.apache_kafka import SINGLE_NODE
from compat.broker_process import BrokerProcess
from pykbroker.coordinators.group_log import GROUP_RECORDS
from pykbroker.coordinators.records import decode_record
from pykbroker.internal_topics import partition_of_name
from pykbroker_protocol.internal_topics.offsets import OffsetCommitKey, OffsetCommitValue
from pykbroker_protocol.records.batch import RecordBatch, iterate_batches
from tests.apis.groups.offsets import commit, forget, of
from tests.apis.groups.transacting import IMPLICIT_SINCE, Producer, within
from tests.apis.groups.transcript import GroupTranscript

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from compat.apache import ApacheKafka, ApacheTools
    from tests.apis.groups.transcript import Group

PARTITIONS = int(SINGLE_NODE["offsets.topic.num.partitions"])
NO_PRODUCER = -1


@pytest.fixture
def pykbroker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "ours", settings=SINGLE_NODE) as broker:
        yield broker


def hold_transactions(port: int) -> tuple[Group, list[int]]:
    """Transactions that abort, commit, use another epoch and stay open."""
    broker = GroupTranscript(port, f"bytes-{time.time_ns()}", time.time_ns() // 1_000_000)
    try:
        topic, group = broker.topic(partitions=2), broker.group()
        producer, other = Producer(broker), Producer(broker, "other")
        producer.add(group)
        commit(group, of(topic, {0: 1}))
        producer.commit(group, within(topic, {0: 2, 1: 3}))
        producer.end(group, committed=False)
        producer.commit(group, within(topic, {1: 4}, committed_leader_epoch=7))
        producer.commit(group, within(topic, {1: 5}, committed_metadata=None))
        forget(group, {topic.name: [0]})
        producer.end(group)
        other.commit(group, within(topic, {0: 6}), version=IMPLICIT_SINCE)
        other.end(group, version=IMPLICIT_SINCE)
        other.commit(group, within(topic, {0: 7}), version=IMPLICIT_SINCE)
        return group, [producer.id, other.id]
    finally:
        broker.close()


def written(data: Path, group: Group, producer_ids: list[int]) -> list[dict[str, Any]]:
    """Returns the batches of the group and its producers without random values and timestamps."""
    return [
        plain(batch, group, producer_ids)
        for batch in iterate_batches(segment_of(data, group).read_bytes())
        if batch.producer_id in producer_ids or speaks_of(batch, group)
    ]


def segment_of(data: Path, group: Group) -> Path:
    index = partition_of_name(group.id, PARTITIONS)
    return data / f"__consumer_offsets-{index}" / "00000000000000000000.log"


def speaks_of(batch: RecordBatch, group: Group) -> bool:
    named = group.id.encode()
    return not batch.is_control and any(named in (it.key or b"") for it in batch.records())


def plain(batch: RecordBatch, group: Group, producer_ids: list[int]) -> dict[str, Any]:
    is_produced = batch.producer_id != NO_PRODUCER
    return {
        "attributes": batch.attributes,
        "leader epoch": batch.partition_leader_epoch,
        "producer": producer_ids.index(batch.producer_id) if is_produced else "none",
        "producer epoch": batch.producer_epoch,
        "base sequence": batch.base_sequence,
        "records": [
            (it.key, it.value) if batch.is_control else offset_of(it.key, it.value, group)
            for it in batch.records()
        ],
    }


def offset_of(key: bytes | None, value: bytes | None, group: Group) -> tuple[Any, ...]:
    named, offset = decode_record(GROUP_RECORDS, key or b"", value)
    assert isinstance(named, OffsetCommitKey)
    assert named.group == group.id
    if offset is None:
        return named.partition, None
    assert isinstance(offset, OffsetCommitValue)
    has_topic_id = any(offset.topic_id)
    version = int.from_bytes((value or b"")[:2])
    shown = (offset.offset, offset.leader_epoch, offset.metadata, offset.expire_timestamp)
    return named.partition, version, has_topic_id, shown


def test_batches_of_transactional_offsets_equal_those_of_apache_kafka(
    apache: ApacheKafka, pykbroker: BrokerProcess, apache_tools: ApacheTools
) -> None:
    theirs = written(apache.data_dir, *hold_transactions(apache.port))
    group, producer_ids = hold_transactions(pykbroker.port)
    ours = written(pykbroker.data_dir, group, producer_ids)
    assert ours == theirs
    dump = apache_tools.dump_log(
        segment_of(pykbroker.data_dir, group), options=["--offsets-decoder"]
    )
    for text in ("endTxnMarker: ABORT", "endTxnMarker: COMMIT", '"offset":7', "payload: <DELETE>"):
        assert text in dump
