"""Scenarios of consumers without groups."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from compat.scenarios.producing import COMPRESSIONS
from compat.suite.actor import polled
from compat.suite.assertions import ScenarioFailedError, must, must_equal
from compat.suite.line_process import ClientError
from compat.suite.records import record
from compat.suite.scenario import scenario
from compat.suite.timeout_factor import scaled
from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.records.compression import Compression

if TYPE_CHECKING:
    from compat.suite.actor import Actor
    from compat.suite.records import Read
    from compat.suite.scenario_context import ScenarioContext

START_MS = 1_700_000_000_000
OUT_OF_RANGE = {"OFFSET_OUT_OF_RANGE", "_AUTO_OFFSET_RESET"}
"""The second is librdkafka's error for the reset policy `none`."""


def numbered(topic: str, count: int, start: int = 0) -> list[dict[str, Any]]:
    """Returns records with their number as value and timestamps one second apart."""
    return [
        record(topic, b"%d" % number, timestamp_ms=START_MS + number * 1_000)
        for number in range(start, start + count)
    ]


def topic_with(context: ScenarioContext, count: int) -> str:
    """Creates a topic of one partition with `count` records, in batches of ten."""
    topic = context.topic()
    for start in range(0, count, 10):
        context.reference.write(topic, numbered(topic, min(10, count - start), start))
    return topic


def reader_from(context: ScenarioContext, topic: str, offset: int | str, **options: Any) -> Actor:
    client = context.client()
    client.open_consumer(**options)
    client.read_from([(topic, 0, offset)])
    return client


def values(found: list[Read]) -> list[bytes | None]:
    return [it.value for it in found]


def numbers(first: int, end: int) -> list[bytes | None]:
    return [b"%d" % number for number in range(first, end)]


@scenario("consume-from-beginning", "All records are read in order, with their offsets.", core=True)
def consume_from_beginning(context: ScenarioContext) -> None:
    topic = topic_with(context, 35)
    found = reader_from(context, topic, "beginning").read(35)
    must_equal(values(found), numbers(0, 35), "the values read")
    must_equal([it.offset for it in found], [*range(35)], "their offsets")
    times = [START_MS + number * 1_000 for number in range(35)]
    must_equal([it.timestamp_ms for it in found], times, "their timestamps")


@scenario("consume-from-offset", "A consumer that starts within a batch gets no earlier records.")
def consume_from_offset(context: ScenarioContext) -> None:
    topic = topic_with(context, 35)
    found = reader_from(context, topic, 17).read(18)
    must_equal([it.offset for it in found], [*range(17, 35)], "the offsets read")


@scenario("consume-from-end", "A consumer that starts at the end gets only new records.")
def consume_from_end(context: ScenarioContext) -> None:
    topic = topic_with(context, 5)
    client = reader_from(context, topic, "end")
    must_equal(client.poll(timeout_ms=1_500).records, [], "records before anything was written")
    context.reference.write(topic, numbered(topic, 3, 5))
    must_equal(values(client.read(3)), numbers(5, 8), "the values read")


@scenario("consume-from-timestamp", "The first record at or after a timestamp is found.")
def consume_from_timestamp(context: ScenarioContext) -> None:
    topic = topic_with(context, 35)
    client = context.client()
    client.open_consumer()
    for at_ms, expected in (
        (START_MS, 0),
        (START_MS + 17_000, 17),
        (START_MS + 16_001, 17),
        (START_MS - 1, 0),
        (START_MS + 34_001, None),
    ):
        response = client.do("offsets_at", "c", partitions=[[topic, 0]], at=at_ms)
        found = [(it["topic"], it["partition"], it["offset"]) for it in response["offsets"]]
        must_equal(found, [(topic, 0, expected)], f"the offset at {at_ms - START_MS:+d} ms")
    client.read_from([(topic, 0, 17)])
    must_equal(client.read(18)[0].timestamp_ms, START_MS + 17_000, "the first timestamp")


@scenario("consume-offsets", "Start and end offsets of a partition are returned.")
def consume_offsets(context: ScenarioContext) -> None:
    topic = context.topic(partitions=2)
    context.reference.write(topic, numbered(topic, 7), partition=1)
    client = context.client()
    client.open_consumer()
    for at, expected in (("beginning", [0, 0]), ("end", [0, 7])):
        response = client.do("offsets_at", "c", partitions=[[topic, 0], [topic, 1]], at=at)
        must_equal([it["offset"] for it in response["offsets"]], expected, f"offsets at the {at}")


def consume_compressed(context: ScenarioContext, *, compression: str) -> None:
    topic = context.topic()
    codec = Compression[compression.upper()]
    rows = [
        record(topic, b"%d " % number * 40, key=b"k", headers=[("h", b"%d" % number)])
        for number in range(30)
    ]
    for start in range(0, 30, 10):
        context.reference.write(topic, rows[start : start + 10], compression=codec)
    found = reader_from(context, topic, "beginning").read(30)
    must_equal(values(found), [it["value"] for it in rows], "the values read")
    must_equal([list(it.headers) for it in found], [it["headers"] for it in rows], "the headers")


for its_compression in COMPRESSIONS:
    scenario(
        f"consume-{its_compression}",
        f"Batches compressed with {its_compression} are read completely.",
        core=its_compression == "zstd",
    )(partial(consume_compressed, compression=its_compression))


@scenario(
    "consume-any-record", "Null, empty and binary keys and values, and headers, are read unchanged."
)
def consume_any_record(context: ScenarioContext) -> None:
    topic = context.topic()
    headers = [("one", b"1"), ("one", b""), ("nothing", None), ("größe", b"\x00\xff")]
    rows = [
        record(topic, None, key=None),
        record(topic, b"", key=b""),
        record(topic, bytes(range(256)), key=bytes(range(256))),
        record(topic, b"v", key=b"k", headers=headers),
    ]
    context.reference.write(topic, rows)
    found = reader_from(context, topic, "beginning").read(4)
    must_equal([it.key for it in found], [it["key"] for it in rows], "the keys read")
    must_equal(values(found), [it["value"] for it in rows], "the values read")
    must_equal(list(found[3].headers), headers, "the headers read")


@scenario("consume-seek", "After seeking, the next record is the one at that offset.")
def consume_seek(context: ScenarioContext) -> None:
    topic = topic_with(context, 35)
    client = reader_from(context, topic, "beginning")
    client.read(35)
    for offset in (3, 30, 0, 34):
        client.do("seek", "c", topic=topic, partition=0, offset=offset)
        must_equal(client.read(1)[0].offset, offset, f"the first record after seeking {offset}")
    client.do("seek", "c", topic=topic, partition=0, offset="beginning")
    must_equal(client.read(1)[0].offset, 0, "the first record after seeking the beginning")


@scenario("consume-position", "The position is the offset of the next record.")
def consume_position(context: ScenarioContext) -> None:
    topic = topic_with(context, 5)
    client = reader_from(context, topic, 2)
    found = client.read(3)
    response = client.do("position", "c", topic=topic, partition=0)
    must_equal((len(found), response["offset"]), (3, 5), "records read, and the position")


@scenario("consume-pause", "A paused partition returns no records until it is resumed.")
def consume_pause(context: ScenarioContext) -> None:
    topic = context.topic(partitions=2)
    client = context.client()
    client.open_consumer()
    client.read_from([(topic, 0, "beginning"), (topic, 1, "beginning")])
    client.do("pause", "c", partitions=[[topic, 1]])
    for partition in range(2):
        context.reference.write(topic, numbered(topic, 3), partition=partition)
    found = client.read(3) + client.poll(timeout_ms=1_500).records
    must_equal([it.partition for it in found], [0, 0, 0], "partitions read while 1 is paused")
    client.do("resume", "c", partitions=[[topic, 1]])
    must_equal([it.partition for it in client.read(3)], [1, 1, 1], "partitions read afterwards")


@scenario("consume-out-of-range-earliest", "An offset out of range is reset to the earliest.")
def consume_out_of_range_earliest(context: ScenarioContext) -> None:
    topic = topic_with(context, 5)
    found = reader_from(context, topic, 1_000, reset="earliest").read(5)
    must_equal(values(found), numbers(0, 5), "the values read")


@scenario("consume-out-of-range-latest", "An offset out of range is reset to the latest.")
def consume_out_of_range_latest(context: ScenarioContext) -> None:
    topic = topic_with(context, 5)
    client = reader_from(context, topic, 1_000, reset="latest")
    must_equal(client.poll(timeout_ms=2_000).records, [], "records before anything was written")
    context.reference.write(topic, numbered(topic, 2, 5))
    must_equal(values(client.read(2)), numbers(5, 7), "the values read")


@scenario(
    "consume-out-of-range-error", "An offset out of range is an error without a reset policy."
)
def consume_out_of_range_error(context: ScenarioContext) -> None:
    topic = topic_with(context, 5)
    client = reader_from(context, topic, 1_000, reset="none")
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline:
        try:
            found = client.poll().records
        except ClientError as error:
            must(error.code in OUT_OF_RANGE, f"the error was {error}")
            return
        must_equal(found, [], "records")
    raise ScenarioFailedError("the consumer reported no error")


@scenario("consume-many-partitions", "Twenty partitions are read concurrently.")
def consume_many_partitions(context: ScenarioContext) -> None:
    topic = context.topic(partitions=20)
    for partition in range(20):
        context.reference.write(topic, numbered(topic, 5), partition=partition)
    client = context.client()
    client.open_consumer()
    client.read_from([(topic, partition, "beginning") for partition in range(20)])
    found = client.read(100)
    for partition in range(20):
        its = [it.value for it in found if it.partition == partition]
        must_equal(its, numbers(0, 5), f"the values of partition {partition}")


@scenario("consume-large-values", "Records of nearly one megabyte are read completely.")
def consume_large_values(context: ScenarioContext) -> None:
    topic = context.topic()
    large = [bytes([number]) * 900_000 for number in range(4)]
    for value in large:
        context.reference.write(topic, [record(topic, value)])
    found = reader_from(context, topic, "beginning").read(4)
    must(values(found) == large, f"sizes read: {[len(it.value or b'') for it in found]}")


@scenario(
    "consume-larger-than-asked-for", "A batch above the consumer's fetch limit is still read."
)
def consume_larger_than_asked_for(context: ScenarioContext) -> None:
    topic = context.topic()
    context.reference.write(topic, [record(topic, bytes(200_000))])
    context.reference.write(topic, [record(topic, b"next")])
    client = reader_from(context, topic, "beginning", partition_bytes_max=10_000)
    found = client.read(2)
    must_equal([len(it.value or b"") for it in found], [200_000, 4], "sizes read")


@scenario("long-poll-returns", "A waiting Fetch returns as soon as records are written.", core=True)
def long_poll_returns(context: ScenarioContext) -> None:
    topic = context.topic()
    client = reader_from(context, topic, "beginning", fetch_wait_ms_max=20_000, fetch_bytes_min=1)
    must_equal(client.poll(timeout_ms=500).records, [], "records before anything was written")
    client.begin_to("poll", "c", timeout_ms=19_000)
    time.sleep(1)
    started = time.monotonic()
    context.reference.write(topic, numbered(topic, 1))
    found = polled(client.finish()).records
    must_equal(values(found), numbers(0, 1), "the values read")
    seconds = time.monotonic() - started
    must(seconds < scaled(3), f"the record was read after {seconds:.1f} s")


@scenario("long-poll-waits", "A waiting consumer does not poll repeatedly.")
def long_poll_waits(context: ScenarioContext) -> None:
    topic = context.topic()
    client = reader_from(context, topic, "beginning", fetch_wait_ms_max=1_000, fetch_bytes_min=1)
    client.poll(timeout_ms=1_000)
    before = context.relay.recording.requests[ApiKey.FETCH]
    client.poll(timeout_ms=4_000)
    asked = context.relay.recording.requests[ApiKey.FETCH] - before
    must(asked <= 6, f"{asked} Fetch requests in four seconds with nothing to read")


@scenario("slow-reader", "A slow consumer reads all of twelve megabytes.")
def slow_reader(context: ScenarioContext) -> None:
    topic = context.topic()
    large = [b"%02d" % number + bytes(500_000) for number in range(24)]
    for value in large:
        context.reference.write(topic, [record(topic, value)])
    client = reader_from(context, topic, "beginning", records_max=2)
    found: list[Read] = []
    deadline = time.monotonic() + 30
    while len(found) < len(large) and time.monotonic() < deadline:
        found += client.poll().records
        time.sleep(0.05)
    must(values(found) == large, f"read: {[(it.value or b'')[:2] for it in found]}")
