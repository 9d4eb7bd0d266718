"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from pykbroker_protocol.messages.list_offsets import ListOffsetsPartition
from pykbroker_protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from pykbroker_protocol.records.compression import Compression
from tests.apis.conversations.catalog import conversation
from tests.apis.conversations.fetching import delete_before, filled
from tests.apis.request_builders import batch, offsets_at, produced, to_partition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.apis.transcript import Topic, Transcript

SPECIAL = (-1, -2, -3, -4, -5, -6, -7, -100)
ALL_VERSIONS = range(1, 12)


def ask_times(
    broker: Transcript, topic: str, times_ms: Iterable[int], versions: Iterable[int] = (7,)
) -> None:
    for time_ms, request in zip(times_ms, offsets_at(topic, times_ms), strict=True):
        for version in versions:
            shown = time_ms - broker.now_ms if time_ms > 0 else time_ms
            broker.ask(request, version, note=f"at {shown}")


@conversation
def special_timestamps_of_an_empty_log(broker: Transcript) -> None:
    topic = broker.topic()
    ask_times(broker, topic.name, (*SPECIAL, 0, broker.now_ms), ALL_VERSIONS)


@conversation
def special_timestamps_of_a_log_with_records(broker: Transcript) -> None:
    topic = filled(broker)
    ask_times(broker, topic.name, (*SPECIAL, 0, broker.now_ms), ALL_VERSIONS)


@conversation
def special_timestamps_of_a_truncated_log(broker: Transcript) -> None:
    topic = filled(broker)
    delete_before(broker, topic, 6)
    half = filled(broker, "half")
    delete_before(broker, half, 3)
    for name in (topic.name, half.name):
        ask_times(broker, name, (-1, -2, -4, -5, -6, 0, broker.now_ms), (1, 7, 11))
        with broker.known_difference("Maximum timestamp after DeleteRecords"):
            ask_times(broker, name, (-3,))


@conversation
def the_offset_of_a_timestamp(broker: Transcript) -> None:
    now = broker.now_ms
    for codec in (Compression.NONE, Compression.GZIP, Compression.ZSTD):
        topic = broker.topic(codec.name)
        for start in (now - 90_000, now - 60_000, now - 70_000, now - 30_000):
            records = batch(b"a", b"b", b"c", now_ms=start, step_ms=1000, codec=codec)
            broker.quietly(produced(to_partition(records, topic=topic.name)), 9)
        seconds = (0, 80, 90, 91, 59, 60, 61, 68, 69, 70, 71, 89, 28, 29, 30, 27, 1)
        ask_times(broker, topic.name, [now - it * 1000 for it in seconds])
        ask_times(broker, topic.name, (-3,))


@conversation
def the_greatest_timestamp_before_the_last_record(broker: Transcript) -> None:
    now = broker.now_ms
    topic = broker.topic()
    for start, step in ((now - 1000, -1000), (now - 50_000, 1000), (now - 1000, 0)):
        records = batch(b"a", b"b", now_ms=start, step_ms=step)
        broker.quietly(produced(to_partition(records, topic=topic.name)), 9)
    ask_times(broker, topic.name, (-3, now - 1000, now - 500, now - 2000, now - 50_000))
    timeless = broker.topic("timeless")
    broker.quietly(produced(to_partition(batch(now_ms=-1), topic=timeless.name)), 9)
    ask_times(broker, timeless.name, (0, now))
    with broker.known_difference("Maximum timestamp of a log without timestamps"):
        ask_times(broker, timeless.name, (-3,))


@conversation
def lookups_with_log_append_time(broker: Transcript) -> None:
    topic = broker.topic(configs={"message.timestamp.type": "LogAppendTime"})
    records = batch(b"a", b"b", now_ms=broker.now_ms)
    for _ in range(2):
        broker.quietly(produced(to_partition(records, topic=topic.name)), 9)
    ask_times(broker, topic.name, (0, 1, broker.now_ms - 1000, broker.now_ms + 3_600_000))


@conversation
def offsets_for_read_committed(broker: Transcript) -> None:
    topic = filled(broker)
    for isolation in (0, 1):
        for request in offsets_at(topic.name, (-1, -2, -3, 0), isolation=isolation):
            for version in (2, 7):
                broker.ask(request, version, note=f"isolation {isolation}")


@conversation
def offsets_of_unknown_partitions(broker: Transcript) -> None:
    topic = filled(broker)
    for version in (1, 4, 6, 10):
        for request in offsets_at("no-such-topic", (-1,)):
            broker.ask(request, version)
        for request in offsets_at(topic.name, (-1, 0), partition=5):
            broker.ask(request, version)
    (request,) = offsets_at(topic.name, (-1,))
    twice = [ListOffsetsPartition(partition_index=0, timestamp=it) for it in (-1, -2)]
    for version in (1, 7):
        broker.ask(request.replace(topics=[request.topics[0].replace(partitions=twice)]), version)
        broker.ask(request.replace(topics=[*request.topics, *request.topics]), version)


@conversation
def offsets_requested_with_replica_ids_and_epochs(broker: Transcript) -> None:
    topic = filled(broker)
    for epoch in (-1, 0, 1, 7):
        for request in offsets_at(topic.name, (-1, -2, 0), epoch=epoch):
            broker.ask(request, 4, note=f"epoch {epoch}")
            broker.ask(request, 9, note=f"epoch {epoch}")
    (request,) = offsets_at(topic.name, (-1,))
    for replica_id in (-2, 1, 99):
        broker.ask(request.replace(replica_id=replica_id), 7, note=f"replica {replica_id}")


def epoch_asked(topic: str, epoch: int, current: int, partition: int) -> OffsetForLeaderTopic:
    return OffsetForLeaderTopic(
        topic=topic,
        partitions=[
            OffsetForLeaderPartition(
                partition=partition, current_leader_epoch=current, leader_epoch=epoch
            )
        ],
    )


@conversation
def where_leader_epochs_end(broker: Transcript) -> None:
    topics = filled(broker), broker.topic("empty")
    for version in (2, 3, 4):
        for topic in topics:
            for epoch in (-1, 0, 1, 50):
                for current in (-1, 0, 1):
                    query = epoch_asked(topic.name, epoch, current, 0)
                    request = OffsetForLeaderEpochRequest(replica_id=-1, topics=[query])
                    broker.ask(request, version, note=f"{epoch} of {current} {topic.name}")
        for query in (epoch_asked("no-such", 0, -1, 0), epoch_asked(topics[0].name, 0, -1, 9)):
            broker.ask(OffsetForLeaderEpochRequest(replica_id=-1, topics=[query]), version)


def deletion(topic: str, *asked: tuple[int, int]) -> DeleteRecordsRequest:
    return DeleteRecordsRequest(
        topics=[
            DeleteRecordsTopic(
                name=topic,
                partitions=[
                    DeleteRecordsPartition(partition_index=index, offset=offset)
                    for index, offset in asked
                ],
            )
        ],
        timeout_ms=5000,
    )


@conversation
def records_are_deleted_up_to_an_offset(broker: Transcript) -> None:
    topic = filled(broker)
    for version in (0, 1, 2):
        for offset in (7, 100, -2, -100, 0, 1, 0, 3):
            broker.ask(deletion(topic.name, (0, offset)), version, note=f"before {offset}")
    broker.ask(deletion(topic.name, (0, -1)), 2, note="all")
    broker.ask(deletion(topic.name, (0, -1)), 2, note="all again")
    broker.ask(deletion(topic.name, (0, 2)), 2, note="before what is gone")
    broker.ask(deletion("no-such-topic", (0, 0)), 2)
    broker.ask(deletion(topic.name, (4, 0), (0, 6)), 2)
    empty = broker.topic("empty")
    broker.ask(deletion(empty.name, (0, 0)), 2, note="an empty log")
    broker.ask(deletion(empty.name, (0, 1)), 2, note="an empty log")
    ask_times(broker, topic.name, (-1, -2))


@conversation
def delete_records_of_compacted_topics(broker: Transcript) -> None:
    for policy in ("compact", "compact,delete"):
        topic: Topic = broker.topic(policy.replace(",", "-"), configs={"cleanup.policy": policy})
        records = to_partition(batch(now_ms=broker.now_ms), topic=topic.name)
        broker.quietly(produced(records), 9)
        broker.ask(deletion(topic.name, (0, 1)), 2, note=policy)
