"""A connection that repeatedly sends very large requests until its input ends.

If the broker closes the connection, the next request uses a new one.
"""

from __future__ import annotations

import argparse
import itertools
import json
import socket
import struct
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.clients.steady_produce import input_has_ended
from benchmarks.wire import receive_frame
from pykbroker_protocol.frame import write_request
from pykbroker_protocol.messages import (
    create_partitions,
    create_topics,
    delete_topics,
    fetch,
    list_offsets,
    metadata,
    offset_commit,
    produce,
)
from pykbroker_protocol.records.builder import BatchBuilder
from pykbroker_protocol.records.compression import Compression

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pykbroker_protocol.message import Message

TIMEOUT_SECONDS = 120.0
TIMEOUT_MS = 60_000
PAUSE_SECONDS = 0.02
BETWEEN_CHANGES_SECONDS = 1.0
"""Pause after requests with delayed work, such as deleting logs, so that it is not measured."""
NO_LIMIT = 50 << 20
GROWN_BY = 2000

Ask = tuple["Message", int]
"""A request and its version."""


def names(count: int) -> Iterator[str]:
    return (f"none-{number}" for number in range(count))


def metadata_names(count: int, topic: str) -> Sequence[Ask]:
    del topic
    topics = [metadata.MetadataRequestTopic(name=it) for it in names(count)]
    return [(metadata.MetadataRequest(topics=topics, allow_auto_topic_creation=False), 4)]


def fetch_entries(count: int, topic: str) -> Sequence[Ask]:
    partitions = [
        fetch.FetchPartition(partition=it, fetch_offset=0, partition_max_bytes=1)
        for it in range(count)
    ]
    topics = [fetch.FetchTopic(topic=topic, partitions=partitions)]
    asked = fetch.FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=NO_LIMIT, topics=topics)
    return [(asked, 4)]


def list_offsets_topics(count: int, topic: str) -> Sequence[Ask]:
    del topic
    row = [list_offsets.ListOffsetsPartition(partition_index=0, timestamp=-1)]
    topics = [list_offsets.ListOffsetsTopic(name=it, partitions=row) for it in names(count)]
    return [(list_offsets.ListOffsetsRequest(replica_id=-1, topics=topics), 1)]


def commit_partitions(count: int, topic: str) -> Sequence[Ask]:
    rows = [
        offset_commit.OffsetCommitRequestPartition(
            partition_index=it, committed_offset=0, committed_metadata=""
        )
        for it in range(count)
    ]
    topics = [offset_commit.OffsetCommitRequestTopic(name=topic, partitions=rows)]
    asked = offset_commit.OffsetCommitRequest(group_id="hostile", member_id="", topics=topics)
    return [(asked, 2)]


def lookup_by_time(count: int, topic: str) -> Sequence[Ask]:
    """Looks up the last record of a compressed batch by timestamp."""
    now_ms = time.time_ns() // 1_000_000 - count
    builder = BatchBuilder(compression=Compression.ZSTD)
    for number in range(count):
        builder.append(now_ms + number, None, b"")
    batch = [produce.PartitionProduceData(index=0, records=builder.build())]
    written = produce.TopicProduceData(name=topic, partition_data=batch)
    row = list_offsets.ListOffsetsPartition(partition_index=0, timestamp=now_ms + count - 1)
    asked = list_offsets.ListOffsetsTopic(name=topic, partitions=[row])
    return [
        (produce.ProduceRequest(acks=-1, timeout_ms=TIMEOUT_MS, topic_data=[written]), 8),
        *[(list_offsets.ListOffsetsRequest(replica_id=-1, topics=[asked]), 1)] * 1000,
    ]


def create_and_delete(count: int, topic: str) -> Sequence[Ask]:
    return [
        (new_topics([f"{topic}-many"], count), 5),
        (
            delete_topics.DeleteTopicsRequest(topic_names=[f"{topic}-many"], timeout_ms=TIMEOUT_MS),
            5,
        ),
    ]


def create_topics_and_delete(count: int, topic: str) -> Sequence[Ask]:
    many = [f"{topic}-{it}" for it in range(count)]
    return [
        (new_topics(many, 1), 5),
        (delete_topics.DeleteTopicsRequest(topic_names=many, timeout_ms=TIMEOUT_MS), 5),
    ]


def grow_and_delete(count: int, topic: str) -> Sequence[Ask]:
    grown = create_partitions.CreatePartitionsTopic(
        name=f"{topic}-many", count=count, assignments=None
    )
    growth = create_partitions.CreatePartitionsRequest(
        topics=[grown], timeout_ms=TIMEOUT_MS, validate_only=False
    )
    first, last = create_and_delete(count - GROWN_BY, topic)
    return [first, (growth, 1), last]


def new_topics(topics: Sequence[str], partitions: int) -> Message:
    new_topics = [
        create_topics.CreatableTopic(
            name=it, num_partitions=partitions, replication_factor=1, assignments=[], configs=[]
        )
        for it in topics
    ]
    return create_topics.CreateTopicsRequest(topics=new_topics, timeout_ms=TIMEOUT_MS)


KINDS: dict[str, Callable[[int, str], Sequence[Ask]]] = {
    "metadata-names": metadata_names,
    "fetch-entries": fetch_entries,
    "list-offsets-topics": list_offsets_topics,
    "commit-partitions": commit_partitions,
    "lookup-by-time": lookup_by_time,
    "create-partitions": create_and_delete,
    "create-topics": create_topics_and_delete,
    "grow-topic": grow_and_delete,
}
CHANGES = ("create-partitions", "create-topics", "grow-topic")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("topic")
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("count", type=int)
    parser.add_argument("ready", type=Path, help="is made when the requests are")
    asked = parser.parse_args()
    requests = KINDS[asked.kind](asked.count, asked.topic)
    frames = [b"".join(write_request(it, version, 7, "hostile")) for it, version in requests]
    del requests
    asked.ready.touch()
    input_has_ended(BETWEEN_CHANGES_SECONDS)
    pause_seconds = BETWEEN_CHANGES_SECONDS if asked.kind in CHANGES else PAUSE_SECONDS
    print(json.dumps(ask_in_turn(asked.port, frames, pause_seconds)))


def ask_in_turn(port: int, frames: Sequence[bytes], pause_seconds: float) -> dict[str, float]:
    answered = refused = 0
    slowest_seconds = 0.0
    connection = connect(port)
    for frame in itertools.cycle(frames):
        if input_has_ended(pause_seconds):
            break
        began = time.perf_counter()
        try:
            connection.sendall(struct.pack(">i", len(frame)) + frame)
            receive_frame(connection)
            answered += 1
        except ConnectionError:
            refused += 1
            connection.close()
            connection = connect(port)
        slowest_seconds = max(slowest_seconds, time.perf_counter() - began)
    connection.close()
    return {"answered": answered, "refused": refused, "slowest_seconds": slowest_seconds}


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_SECONDS)


if __name__ == "__main__":
    main()
