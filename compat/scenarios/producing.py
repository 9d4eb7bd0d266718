"""Scenarios of producers without transactions."""

from __future__ import annotations

import time
from functools import partial
from itertools import product
from typing import TYPE_CHECKING

from compat.suite.actor import until
from compat.suite.assertions import must, must_equal
from compat.suite.records import record
from compat.suite.scenario import scenario
from pykbroker_protocol.partitioner import partition_of_key
from pykbroker_protocol.records.compression import Compression

if TYPE_CHECKING:
    from compat.suite.records import Header, Written
    from compat.suite.scenario_context import ScenarioContext

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
COMPRESSIBLE = b"a record that is worth compressing " * 8
LARGE_BYTES = 900_000


def produce(context: ScenarioContext, *, acks: str, compression: str, idempotent: bool) -> None:
    topic = context.topic()
    client = context.client()
    client.open_producer(acks=acks, compression=compression, idempotent=idempotent)
    values = [b"%d %b" % (number, COMPRESSIBLE) for number in range(20)]
    written = client.produce([record(topic, value) for value in values])
    if acks == "0":
        until(lambda: len(context.reference.records(topic)) >= len(values), "records in the log")
    else:
        must_equal([it.offset for it in written], [*range(20)], "the returned offsets")
    must_equal(
        [it.value for it in context.reference.records(topic)], values, "the values in the log"
    )
    for batch in context.reference.batches(topic):
        must(batch.is_crc_valid(), "the checksum of a batch")
        must_equal(batch.compression, Compression[compression.upper()], "the compression")
        must_equal(batch.producer_id >= 0, idempotent, "whether a producer id is in the batch")


for its_acks, its_compression in product(("0", "1", "all"), COMPRESSIONS):
    scenario(
        f"produce-acks-{its_acks}-{its_compression}",
        f"Records sent with acks={its_acks}, compressed with {its_compression}, are in the log.",
        core=its_compression in ("none", "zstd") and its_acks != "0",
    )(partial(produce, acks=its_acks, compression=its_compression, idempotent=False))
for its_compression in COMPRESSIONS:
    scenario(
        f"produce-idempotent-{its_compression}",
        f"Records of an idempotent producer, compressed with {its_compression}, are in the log.",
        core=its_compression == "lz4",
    )(partial(produce, acks="all", compression=its_compression, idempotent=True))


@scenario("produce-keys", "Null, empty and binary keys are stored unchanged.")
def produce_keys(context: ScenarioContext) -> None:
    keys = [None, b"", b"key", bytes(range(256))]
    topic = context.topic()
    client = context.client()
    client.open_producer()
    client.produce([record(topic, key=key, partition=0) for key in keys])
    must_equal([it.key for it in context.reference.records(topic)], keys, "the keys in the log")


@scenario("produce-null-value", "Null, empty and binary values are stored unchanged.")
def produce_null_value(context: ScenarioContext) -> None:
    values = [None, b"", b"value", bytes(range(256))]
    topic = context.topic()
    client = context.client()
    client.open_producer()
    client.produce([record(topic, value, key=b"k") for value in values])
    must_equal(
        [it.value for it in context.reference.records(topic)], values, "the values in the log"
    )


@scenario("produce-headers", "Headers keep order, duplicates and binary values.")
def produce_headers(context: ScenarioContext) -> None:
    headers: list[Header] = [
        ("one", b"1"),
        ("two", b""),
        ("one", b"\x00\xff"),
        ("größe", "groß".encode()),
    ]
    found = headers_in_the_log(context, headers)
    must_equal(found, headers, "the headers in the log")


@scenario("produce-header-without-value", "A header value may be null.")
def produce_header_without_value(context: ScenarioContext) -> None:
    headers = [("nothing", None), ("empty", b"")]
    found = headers_in_the_log(context, headers)
    must_equal(found, headers, "the headers in the log")


def headers_in_the_log(context: ScenarioContext, headers: list[Header]) -> list[Header]:
    topic = context.topic()
    client = context.client()
    client.open_producer()
    client.produce([record(topic, headers=headers)])
    (found,) = context.reference.records(topic)
    return list(found.headers)


@scenario("produce-timestamps", "The record has the timestamp of the producer.")
def produce_timestamps(context: ScenarioContext) -> None:
    times = [1_600_000_000_000 + number * 1_000 for number in (0, 5, 3)]
    topic = context.topic()
    client = context.client()
    client.open_producer()
    client.produce([record(topic, timestamp_ms=time_ms) for time_ms in times])
    found = [it.timestamp_ms for it in context.reference.records(topic)]
    must_equal(found, times, "the timestamps in the log")


@scenario(
    "produce-log-append-time", "With LogAppendTime the record has the timestamp of the broker."
)
def produce_log_append_time(context: ScenarioContext) -> None:
    topic = context.topic(configs={"message.timestamp.type": "LogAppendTime"})
    client = context.client()
    client.open_producer()
    client.produce([record(topic, timestamp_ms=1_600_000_000_000)])
    (batch,) = context.reference.batches(topic)
    (found,) = batch.records()
    must_equal(batch.timestamp_type.name, "LOG_APPEND_TIME", "the timestamp type")
    must(abs(found.timestamp - time.time() * 1_000) < 600_000, f"{found.timestamp} is not now")


@scenario("produce-large-value", "A value of nearly one megabyte is stored completely.", core=True)
def produce_large_value(context: ScenarioContext) -> None:
    value = bytes(range(256)) * (LARGE_BYTES // 256)
    topic = context.topic()
    client = context.client()
    client.open_producer()
    client.produce([record(topic, value), record(topic, b"small")])
    found = [it.value for it in context.reference.records(topic)]
    must(found == [value, b"small"], f"sizes in the log: {[len(it or b'') for it in found]}")


@scenario("produce-explicit-partition", "A record is written to its explicit partition.")
def produce_explicit_partition(context: ScenarioContext) -> None:
    expected = [2, 0, 1, 2, 2, 0]
    topic = context.topic(partitions=3)
    client = context.client()
    client.open_producer()
    written = client.produce([record(topic, key=b"k", partition=it) for it in expected])
    must_equal([it.partition for it in written], expected, "the returned partitions")
    counts = [len(context.reference.records(topic, it)) for it in range(3)]
    must_equal(counts, [2, 1, 3], "records in each partition")


@scenario("produce-custom-partitioner", "A custom partitioner selects the partition.")
def produce_custom_partitioner(context: ScenarioContext) -> None:
    topic = context.topic(partitions=4)
    client = context.client()
    client.open_producer(partitioner="last")
    client.produce([record(topic, key=b"%d" % number) for number in range(10)])
    counts = [len(context.reference.records(topic, it)) for it in range(4)]
    must_equal(counts, [0, 0, 0, 10], "records in each partition")


@scenario(
    "produce-partition-as-java",
    "A key selects the same partition as in the Java client.",
    core=True,
)
def produce_partition_as_java(context: ScenarioContext) -> None:
    keys = [b"truck-%d" % number for number in range(60)] + [b"", b"\xff" * 9, "größe".encode()]
    topic = context.topic(partitions=7)
    client = context.client()
    client.open_producer(partitioner="java")
    client.produce([record(topic, key=key) for key in keys])
    found = {
        it.key: partition
        for partition in range(7)
        for it in context.reference.records(topic, partition)
    }
    must_equal(found, {key: partition_of_key(key, 7) for key in keys}, "where the keys went")


@scenario("produce-keyed-order", "Records with the same key keep their order.")
def produce_keyed_order(context: ScenarioContext) -> None:
    topic = context.topic(partitions=3)
    client = context.client()
    client.open_producer()
    rows = [(b"truck-%d" % (number % 10), b"%d" % number) for number in range(300)]
    for start in range(0, len(rows), 100):
        client.produce([record(topic, value, key=key) for key, value in rows[start : start + 100]])
    found: dict[bytes | None, list[bytes | None]] = {}
    homes: dict[bytes | None, set[int]] = {}
    for partition in range(3):
        for it in context.reference.records(topic, partition):
            found.setdefault(it.key, []).append(it.value)
            homes.setdefault(it.key, set()).add(partition)
    expected = {key: [value for its, value in rows if its == key] for key, _ in rows}
    must_equal(found, expected, "the values of each key, in order")
    must(all(len(it) == 1 for it in homes.values()), f"a key has two partitions: {homes}")


@scenario("produce-many", "Thousands of records at once are stored once each, in order.")
def produce_many(context: ScenarioContext) -> None:
    topic = context.topic()
    client = context.client()
    client.open_producer(linger_ms=5, compression="none")
    values = [b"%06d" % number + bytes(94) for number in range(5_000)]
    written = client.produce([record(topic, value) for value in values])
    offsets = [it.offset for it in written]
    must_equal(offsets, [*range(5_000)], "the returned offsets")
    found = [it.value for it in context.reference.records(topic)]
    must(found == values, f"{len(found)} records in the log, or in another order")


@scenario(
    "produce-to-many-partitions", "Records for twenty partitions at once reach each partition."
)
def produce_to_many_partitions(context: ScenarioContext) -> None:
    topic = context.topic(partitions=20)
    client = context.client()
    client.open_producer()
    rows = [record(topic, b"%d" % number, partition=number % 20) for number in range(200)]
    written: list[Written] = client.produce(rows)
    must_equal(
        [it.partition for it in written], [it % 20 for it in range(200)], "the returned partitions"
    )
    for partition in range(20):
        found = [it.value for it in context.reference.records(topic, partition)]
        expected = [b"%d" % number for number in range(partition, 200, 20)]
        must_equal(found, expected, f"the values in partition {partition}")
