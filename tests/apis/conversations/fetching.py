"""Fetch: limits, offsets and the fields beside the records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.message import ZERO_UUID
from pykbroker_protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from pykbroker_protocol.messages.fetch import FetchPartition, FetchTopic
from tests.apis.conversations.catalog import conversation
from tests.apis.request_builders import batch, fetched, from_partition, produced, to_partition

if TYPE_CHECKING:
    from tests.apis.transcript import Topic, Transcript

NO_SUCH_ID = bytes(range(1, 17))


def filled(
    broker: Transcript,
    name: str = "topic",
    *,
    partitions: int = 1,
    batches: int = 3,
    size: int = 100,
) -> Topic:
    """Appends batches of two records to each partition."""
    topic = broker.topic(name, partitions=partitions)
    for partition in range(partitions):
        for number in range(batches):
            value = b"%d" % number * size
            records = batch(value, value, now_ms=broker.now_ms)
            data = to_partition(records, topic=topic.name, partition=partition)
            broker.quietly(produced(data), 9)
    return topic


def delete_before(broker: Transcript, topic: Topic, offset: int) -> None:
    query = DeleteRecordsPartition(partition_index=0, offset=offset)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=topic.name, partitions=[query])], timeout_ms=5000
    )
    assert broker.quietly(request, 2).topics[0].partitions[0].error_code == 0


def all_of(topic: Topic, partitions: int, *, bytes_max: int = 1 << 20) -> FetchTopic:
    return FetchTopic(
        topic=topic.name,
        topic_id=topic.id,
        partitions=[
            FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=bytes_max)
            for index in range(partitions)
        ],
    )


@conversation
def records_are_returned_in_each_version(broker: Transcript) -> None:
    topic = filled(broker)
    for version in range(4, 19):
        broker.ask(fetched(from_partition(topic=topic.name, topic_id=topic.id)), version)


@conversation
def removed_versions_of_fetch(broker: Transcript) -> None:
    for version in (0, 3):
        broker.ask_frame(bytes([0, 1, 0, version, 0, 0, 0, 1, 255, 255]) + bytes(30), f"v{version}")


@conversation
def offsets_before_within_at_and_after_the_log(broker: Transcript) -> None:
    topic = filled(broker)
    for offset in (0, 1, 2, 3, 5, 6, 7, 1000, -1, -2, 2**62):
        for version in (4, 11, 17):
            request = from_partition(offset, topic=topic.name, topic_id=topic.id)
            broker.ask(fetched(request), version, note=f"offset {offset}")
    delete_before(broker, topic, 3)
    for offset in (0, 2, 3, 4, 6, 7):
        request = from_partition(offset, topic=topic.name, topic_id=topic.id)
        broker.ask(fetched(request), 12, note=f"offset {offset} of a log that starts at 3")


@conversation
def an_empty_partition(broker: Transcript) -> None:
    topic = broker.topic()
    for offset in (0, 1, -1):
        request = from_partition(offset, topic=topic.name, topic_id=topic.id)
        for isolation in (0, 1):
            broker.ask(fetched(request, isolation_level=isolation), 13, note=f"offset {offset}")


@conversation
def unknown_partitions_of_fetch(broker: Transcript) -> None:
    topic = filled(broker)
    for version in (4, 7, 11, 12):
        broker.ask(fetched(from_partition(topic="no-such-topic")), version)
        broker.ask(fetched(from_partition(topic=topic.name, partition=7)), version)
        broker.ask(fetched(from_partition(topic=topic.name, partition=-1)), version)
        broker.ask(fetched(from_partition(topic="")), version)
    for version in (13, 15, 16, 18):
        broker.ask(fetched(from_partition(topic_id=NO_SUCH_ID)), version)
        broker.ask(fetched(from_partition(topic_id=ZERO_UUID)), version)
        broker.ask(fetched(from_partition(topic_id=topic.id, partition=7)), version)
        both = (from_partition(topic_id=NO_SUCH_ID), from_partition(topic_id=topic.id))
        broker.ask(fetched(*both), version)
    broker.ask(fetched(), 11, note="nothing")
    broker.ask(fetched(), 13, note="nothing")


@conversation
def the_old_id_of_a_recreated_topic(broker: Transcript) -> None:
    from pykbroker_protocol.messages.delete_topics import DeleteTopicsRequest

    former = filled(broker)
    broker.quietly(DeleteTopicsRequest(topic_names=[former.name], timeout_ms=5000), 5)
    broker.until_gone(former.name)
    filled(broker)
    broker.ask(fetched(from_partition(topic_id=former.id)), 13, note="the former id")


@conversation
def limits_and_the_first_batch(broker: Transcript) -> None:
    topic = filled(broker, partitions=3, size=300)
    rooms = (0, 1, 700, 701, 702, 703, 704, 705, 710, 1404, 1410, 5000)
    for bytes_max in rooms:
        request = fetched(all_of(topic, 1, bytes_max=bytes_max))
        broker.ask(request, 11, note=f"partition_max_bytes {bytes_max}")
        request = fetched(all_of(topic, 3), max_bytes=bytes_max)
        broker.ask(request, 11, note=f"max_bytes {bytes_max} of three")
    for bytes_max in (1, 702, 1000):
        request = fetched(all_of(topic, 3, bytes_max=bytes_max))
        broker.ask(request, 11, note=f"partition_max_bytes {bytes_max} of three")
    with broker.known_difference("Negative fetch limits"):
        broker.ask(fetched(all_of(topic, 3, bytes_max=-1)), 11, note="partition_max_bytes -1")
        broker.ask(fetched(all_of(topic, 3), max_bytes=-1), 11, note="max_bytes -1")


@conversation
def the_first_batch_is_that_of_the_first_partition_with_records(broker: Transcript) -> None:
    full, empty = filled(broker, "full", size=1000), broker.topic("empty")
    for version in (4, 11):
        request = fetched(from_partition(topic=empty.name), from_partition(topic=full.name))
        broker.ask(request.replace(max_bytes=10), version, note="empty first")
        error_first = fetched(from_partition(topic="no"), from_partition(topic=full.name))
        broker.ask(error_first.replace(max_bytes=10), version, note="unknown first")


@conversation
def fetch_waits_until_max_wait(broker: Transcript) -> None:
    topic = filled(broker)
    for least in (0, 1, 1 << 20):
        request = from_partition(6, topic=topic.name)
        broker.ask(fetched(request, min_bytes=least, max_wait_ms=20), 11, note=f"min_bytes {least}")
        request = from_partition(4, topic=topic.name)
        broker.ask(fetched(request, min_bytes=least, max_wait_ms=20), 11, note=f"some, {least}")


@conversation
def isolation_levels(broker: Transcript) -> None:
    topic = filled(broker)
    for version in (4, 11, 17):
        for isolation in (0, 1):
            request = from_partition(topic=topic.name, topic_id=topic.id)
            broker.ask(fetched(request, isolation_level=isolation), version, note=str(isolation))
            behind = from_partition(100, topic=topic.name, topic_id=topic.id)
            broker.ask(fetched(behind, isolation_level=isolation), version, note="behind")


@conversation
def leader_epochs_older_and_newer(broker: Transcript) -> None:
    topic = filled(broker)
    for epoch in (-1, 0, 1, 100, -2):
        for version in (9, 11, 12, 16, 18):
            request = from_partition(
                topic=topic.name, topic_id=topic.id, current_leader_epoch=epoch
            )
            broker.ask(fetched(request), version, note=f"epoch {epoch}")


@conversation
def epochs_of_the_last_record_fetched(broker: Transcript) -> None:
    topic = filled(broker)
    for epoch in (-1, 0, 1, 100):
        for offset in (0, 3, 6):
            request = from_partition(
                offset, topic=topic.name, topic_id=topic.id, last_fetched_epoch=epoch
            )
            broker.ask(fetched(request), 12, note=f"epoch {epoch} offset {offset}")
            broker.ask(fetched(request), 17, note=f"epoch {epoch} offset {offset}")


@conversation
def rack_ids_have_no_effect(broker: Transcript) -> None:
    topic = filled(broker)
    broker.ask(fetched(from_partition(topic=topic.name), rack_id="r1"), 11)
    broker.ask(fetched(from_partition(topic=topic.name), rack_id="r1", cluster_id="other"), 12)
