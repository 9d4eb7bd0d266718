"""Produce: accepted batches and errors."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from pykbroker_protocol.message import ZERO_UUID
from pykbroker_protocol.messages.produce import PartitionProduceData, ProduceRequest
from pykbroker_protocol.records.compression import Compression
from tests.apis.conversations.catalog import conversation
from tests.apis.request_builders import batch, fetched, from_partition, produced, to_partition

if TYPE_CHECKING:
    from tests.apis.transcript import Topic, Transcript

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
NO_SUCH_ID = bytes(range(1, 17))


def send(
    broker: Transcript,
    topic: Topic,
    records: bytes | None,
    version: int = 9,
    note: str = "",
    *,
    acks: int = -1,
) -> None:
    """Produces to partition 0 and records the response."""
    data = to_partition(records, topic=topic.name, topic_id=topic.id)
    broker.ask(produced(data, acks=acks), version, note=note)


def read_back(broker: Transcript, topic: Topic, offset: int = 0) -> None:
    broker.ask(fetched(from_partition(offset, topic=topic.name)), 11)


def changed(records: bytes, position: int, value: bytes, *, crc: bool = True) -> bytes:
    """Overwrites bytes of a batch, with or without an update of the checksum."""
    from pykbroker_protocol.records.crc32c import checksum

    data = bytearray(records)
    data[position : position + len(value)] = value
    if crc:
        struct.pack_into(">I", data, 17, checksum(memoryview(data)[21:]))
    return bytes(data)


@conversation
def records_are_appended_in_each_version(broker: Transcript) -> None:
    topic = broker.topic()
    for version in range(3, 14):
        send(broker, topic, batch(b"a", b"b", now_ms=broker.now_ms), version)
    send(broker, topic, batch(now_ms=broker.now_ms), 9, acks=1)
    read_back(broker, topic)


@conversation
def produce_below_version_3_is_advertised_and_rejected(broker: Transcript) -> None:
    for version in (0, 1, 2):
        broker.ask_frame(struct.pack(">hhih", 0, version, 1, -1) + bytes(20), f"Produce {version}")


@conversation
def unknown_partitions_of_produce(broker: Transcript) -> None:
    topic = broker.topic()
    records = batch(now_ms=broker.now_ms)
    for version in (3, 5, 8, 9, 12):
        broker.ask(produced(to_partition(records, topic="no-such-topic")), version)
        broker.ask(produced(to_partition(records, topic=topic.name, partition=9)), version)
        broker.ask(produced(to_partition(records, topic=topic.name, partition=-1)), version)
    broker.ask(produced(to_partition(records, topic_id=NO_SUCH_ID)), 13)
    broker.ask(produced(to_partition(records, topic_id=ZERO_UUID)), 13)
    broker.ask(produced(to_partition(records, topic_id=topic.id, partition=9)), 13)
    broker.ask(produced(to_partition(records, topic="bad name!")), 9)
    broker.ask(produced(to_partition(records, topic="")), 9)


@conversation
def invalid_acks(broker: Transcript) -> None:
    topic = broker.topic()
    for acks in (2, -2, 100):
        for version in (3, 9, 13):
            send(broker, topic, batch(now_ms=broker.now_ms), version, f"acks={acks}", acks=acks)
    read_back(broker, topic)


@conversation
def too_few_replicas_for_acks_all(broker: Transcript) -> None:
    topic = broker.topic(configs={"min.insync.replicas": "2"})
    for version in (3, 9, 13):
        send(broker, topic, batch(now_ms=broker.now_ms), version, "acks=1", acks=1)
    read_back(broker, topic)
    with broker.known_difference("min.insync.replicas above the number of replicas"):
        for version in (3, 9, 13):
            send(broker, topic, batch(now_ms=broker.now_ms), version, "acks=all")
        send(broker, topic, batch(now_ms=broker.now_ms)[:30], note="cut as well")


@conversation
def acks_0_has_no_response(broker: Transcript) -> None:
    topic = broker.topic()
    for records in (batch(now_ms=broker.now_ms), b"rubbish", batch(b"x", now_ms=broker.now_ms)):
        data = to_partition(records, topic=topic.name, topic_id=topic.id)
        broker.wire.send(produced(data, acks=0), 9)
    send(broker, topic, batch(now_ms=broker.now_ms), note="after it")
    read_back(broker, topic)
    unknown = to_partition(batch(now_ms=broker.now_ms), topic="no-such-topic")
    broker.wire.send(produced(unknown, acks=0), 9)
    read_back(broker, topic)


@conversation
def empty_produce_requests(broker: Transcript) -> None:
    topic = broker.topic()
    for version in (3, 7, 9, 13):
        send(broker, topic, b"", version, "empty records")
    broker.ask(produced(), 9)
    broker.ask(produced(), 13)
    read_back(broker, topic)


@conversation
def truncated_batches_and_other_magics(broker: Transcript) -> None:
    topic = broker.topic()
    sound = batch(b"a" * 50, now_ms=broker.now_ms)
    for count in (1, 8, 12, 16, 17, 18, 40, 61, len(sound) - 1):
        send(broker, topic, sound[:count], note=f"{count} bytes of a batch")
    send(broker, topic, sound + b"\0", note="a byte behind the batch")
    send(broker, topic, sound + sound[:30], note="a half batch behind the batch")
    for magic in (0, 1, 3, 127, -1):
        other = changed(sound, 16, struct.pack(">b", magic))
        send(broker, topic, other, note=f"magic {magic}")
    send(broker, topic, changed(sound, 8, struct.pack(">i", 10)), note="length 10")
    send(broker, topic, changed(sound, 8, struct.pack(">i", -1)), note="length -1")
    send(broker, topic, changed(sound, 8, struct.pack(">i", 2**30)), note="length 2^30")
    read_back(broker, topic)


@conversation
def two_batches_for_one_partition(broker: Transcript) -> None:
    topic = broker.topic()
    one, other = batch(b"a", now_ms=broker.now_ms), batch(b"b", now_ms=broker.now_ms)
    send(broker, topic, one + other, note="two batches")
    zipped = batch(b"a", now_ms=broker.now_ms, codec=Compression.GZIP)
    send(broker, topic, zipped + zipped, note="two compressed batches")
    read_back(broker, topic)


@conversation
def a_repeated_partition(broker: Transcript) -> None:
    topic = broker.topic(partitions=2)
    records = batch(now_ms=broker.now_ms)
    data = to_partition(records, topic=topic.name, topic_id=topic.id)
    twice = data.replace(
        partition_data=[PartitionProduceData(index=0, records=records) for _ in range(2)]
    )
    with broker.known_difference("Duplicate partition in a Produce request"):
        broker.ask(produced(data, data), 9, note="the topic twice")
        broker.ask(produced(twice), 9, note="the partition twice")
        read_back(broker, topic)


@conversation
def inconsistent_batch_headers(broker: Transcript) -> None:
    topic = broker.topic()
    sound = batch(b"a", b"b", now_ms=broker.now_ms)
    for note, lie in {
        "wrong crc": changed(sound, 17, b"\1\2\3\4", crc=False),
        "flipped bit in a record": changed(sound, len(sound) - 2, b"\xff", crc=False),
        "base offset 5": changed(sound, 0, struct.pack(">q", 5)),
        "base offset -1": changed(sound, 0, struct.pack(">q", -1)),
        "leader epoch 7": changed(sound, 12, struct.pack(">i", 7)),
        "last offset delta 5": changed(sound, 23, struct.pack(">i", 5)),
        "last offset delta 0": changed(sound, 23, struct.pack(">i", 0)),
        "last offset delta -1": changed(sound, 23, struct.pack(">i", -1)),
        "record count 3": changed(sound, 57, struct.pack(">i", 3)),
        "record count 1": changed(sound, 57, struct.pack(">i", 1)),
        "record count 0": changed(sound, 57, struct.pack(">i", 0)),
        "record count -1": changed(sound, 57, struct.pack(">i", -1)),
        "control batch": batch(now_ms=broker.now_ms, is_control=True),
        "LogAppendTime by the producer": changed(sound, 21, struct.pack(">h", 8)),
        "a delete horizon": changed(sound, 21, struct.pack(">h", 0x40)),
        "an unknown attribute": changed(sound, 21, struct.pack(">h", 0x4000)),
        "one and a half records": changed(sound, 61, b"\x10"),
        "a negative record length": changed(sound, 61, b"\x01"),
        "offset deltas that do not count up": changed(sound, 64, b"\x04"),
        "record attributes": changed(sound, 62, b"\x01"),
    }.items():
        send(broker, topic, lie, note=note)
    read_back(broker, topic)
    with broker.known_difference("Unknown compression codec"):
        send(broker, topic, changed(sound, 21, struct.pack(">h", 5)), note="unknown codec")


@conversation
def a_wrong_max_timestamp(broker: Transcript) -> None:
    topic = broker.topic()
    sound = batch(b"a", b"b", now_ms=broker.now_ms)
    for greatest_ms in (broker.now_ms + 1000, broker.now_ms - 1000, -1):
        lie = changed(sound, 35, struct.pack(">q", greatest_ms))
        send(broker, topic, lie, note=str(greatest_ms - broker.now_ms))
    with broker.known_difference("The maximum timestamp is taken from the batch header"):
        read_back(broker, topic)
        in_ages = changed(sound, 35, struct.pack(">q", 2**62))
        send(broker, topic, in_ages, note="out of bounds")


@conversation
def a_compressed_batch_with_a_wrong_record_count(broker: Transcript) -> None:
    topic = broker.topic()
    for codec in (Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD):
        sound = batch(b"a", b"b", now_ms=broker.now_ms, codec=codec)
        send(broker, topic, counting(sound, 2**31 - 1), note=f"{codec.name} of 2^31 - 1")
    zipped = batch(b"a", b"b", now_ms=broker.now_ms, codec=Compression.GZIP)
    with broker.known_difference("Compressed batches are not decompressed"):
        for count in (1, 3):
            send(broker, topic, counting(zipped, count), note=f"2 records said to be {count}")


def counting(records: bytes, count: int) -> bytes:
    data = changed(records, 23, struct.pack(">i", count - 1))
    return changed(data, 57, struct.pack(">i", count))


@conversation
def batches_that_are_too_large(broker: Transcript) -> None:
    topic = broker.topic(configs={"max.message.bytes": "1000"})
    for size in (800, 920, 930, 931, 932, 1000, 2000):
        for version in (3, 9):
            send(broker, topic, batch(b"x" * size, now_ms=broker.now_ms), version, f"{size}")
    small = batch(b"x" * 5000, now_ms=broker.now_ms, codec=Compression.GZIP)
    send(broker, topic, small, note="compressed below the limit")
    small_segments = broker.topic("small-segments", configs={"segment.bytes": "1048576"})
    for size in (1_000_000, 1_048_000, 1_048_600):
        send(broker, small_segments, batch(b"x" * size, now_ms=broker.now_ms), note=f"{size}")


@conversation
def a_batch_larger_than_a_segment(broker: Transcript) -> None:
    topic = broker.topic(configs={"segment.bytes": "1048576", "max.message.bytes": "4000000"})
    for size in (1_000_000, 1_048_400, 1_050_000, 2_000_000):
        send(broker, topic, batch(b"x" * size, now_ms=broker.now_ms), note=f"{size}")


@conversation
def timestamps_out_of_bounds(broker: Transcript) -> None:
    topic = broker.topic()
    now = broker.now_ms
    for note, time_ms in {
        "in 50 minutes": now + 50 * 60_000,
        "in 3 hours": now + 3 * HOUR_MS,
        "in 2 days": now + 2 * DAY_MS,
        "ten years ago": now - 3650 * DAY_MS,
        "none": -1,
        "of 1970": 0,
        "far before": -5,
    }.items():
        send(broker, topic, batch(now_ms=time_ms), note=note)
    bounded = broker.topic("bounded", configs={"message.timestamp.before.max.ms": "3600000"})
    for hours in (0, 2):
        send(broker, bounded, batch(now_ms=now - hours * HOUR_MS), note=f"{hours} hours ago")
    stepping = batch(b"old", b"new", now_ms=now - 2 * HOUR_MS, step_ms=2 * HOUR_MS)
    send(broker, bounded, stepping, note="the first of two is too old")
    backwards = batch(b"new", b"old", now_ms=now, step_ms=-2 * HOUR_MS)
    send(broker, bounded, backwards, note="the second of two is too old")
    send(broker, bounded, batch(now_ms=-1), note="no time at all")
    ahead = batch(b"now", b"tomorrow", now_ms=now, step_ms=2 * DAY_MS)
    send(broker, topic, ahead, note="the second of two is in the future")
    zipped = batch(b"n", b"t", now_ms=now, step_ms=2 * DAY_MS, codec=Compression.GZIP)
    send(broker, topic, zipped, note="the same, compressed")


@conversation
def log_append_time_replaces_the_timestamps_of_producers(broker: Transcript) -> None:
    topic = broker.topic(configs={"message.timestamp.type": "LogAppendTime"})
    for version in (3, 9, 13):
        send(broker, topic, batch(b"a", b"b", now_ms=broker.now_ms), version)
    send(broker, topic, batch(now_ms=broker.now_ms + 30 * DAY_MS), note="from the future")
    send(broker, topic, batch(now_ms=-1), note="from no time")
    for codec in (Compression.GZIP, Compression.LZ4):
        send(broker, topic, batch(b"a", b"b", now_ms=broker.now_ms, codec=codec))
    read_back(broker, topic)


@conversation
def each_compression_type_is_kept(broker: Transcript) -> None:
    topic = broker.topic()
    for codec in Compression:
        for version in (3, 6, 7, 9):
            records = batch(b"a" * 20, b"b", now_ms=broker.now_ms, step_ms=1000, codec=codec)
            send(broker, topic, records, version, codec.name)
    broker.ask(fetched(from_partition(0, topic=topic.name)), 10)
    broker.ask(fetched(from_partition(0, topic=topic.name)), 9)


@conversation
def the_compression_type_of_a_topic_is_applied(broker: Transcript) -> None:
    for compression in ("gzip", "snappy", "lz4", "zstd", "uncompressed", "producer"):
        topic = broker.topic(compression, configs={"compression.type": compression})
        for codec in (Compression.NONE, Compression.GZIP, Compression.ZSTD):
            records = batch(b"a" * 20, b"b", now_ms=broker.now_ms, step_ms=1000, codec=codec)
            send(broker, topic, records, note=f"{codec.name} to {compression}")
        read_back(broker, topic)


@conversation
def corrupt_compressed_records(broker: Transcript) -> None:
    for compression in ("producer", "gzip"):
        topic = broker.topic(compression, configs={"compression.type": compression})
        for codec in (Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD):
            sound = batch(b"a" * 300, now_ms=broker.now_ms, codec=codec)
            count = changed(sound, 57, struct.pack(">i", 2))
            both = changed(count, 23, struct.pack(">i", 1))
            with broker.known_difference("Compressed batches are not decompressed"):
                rubbish = changed(sound, 61, b"\xff" * 8)
                send(broker, topic, rubbish, note=f"{codec.name} to {compression}")
            if compression != "producer" and codec != Compression.GZIP:
                send(broker, topic, both, note=f"{codec.name}: one record too few")


@conversation
def a_compacted_topic_requires_keys(broker: Transcript) -> None:
    topic = broker.topic(configs={"cleanup.policy": "compact"})
    both = broker.topic("both", configs={"cleanup.policy": "compact,delete"})
    for version in (3, 8, 9):
        for codec in (Compression.NONE, Compression.GZIP):
            records = batch(b"a", key=None, now_ms=broker.now_ms, codec=codec)
            send(broker, topic, records, version, f"no key, {codec.name}")
            send(broker, both, records, version, f"no key, {codec.name}, compact and delete")
    send(broker, topic, batch(b"a", key=b"", now_ms=broker.now_ms), note="an empty key")
    send(broker, topic, batch(None, now_ms=broker.now_ms), note="a tombstone")
    read_back(broker, topic)


@conversation
def records_without_a_begun_transaction(broker: Transcript) -> None:
    topic = broker.topic()
    producer_id = broker.producer_id()
    records = batch(
        now_ms=broker.now_ms,
        is_transactional=True,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
    )
    send(broker, topic, records, note="no transactional id")
    plain = to_partition(batch(now_ms=broker.now_ms), topic=topic.name, topic_id=topic.id)
    request = ProduceRequest(
        transactional_id="nobody", acks=-1, timeout_ms=1000, topic_data=[plain]
    )
    broker.ask(request, 9, note="a transactional id and a plain batch")


@conversation
def errors_of_partitions_do_not_affect_others(broker: Transcript) -> None:
    topic = broker.topic(partitions=3)
    sound = batch(now_ms=broker.now_ms)
    rows = [(0, sound), (1, sound[:40]), (2, sound), (3, sound)]
    request = produced(
        to_partition(sound, topic=topic.name).replace(
            partition_data=[PartitionProduceData(index=it, records=data) for it, data in rows]
        )
    )
    broker.ask(request, 8)
    broker.ask(request, 9)
