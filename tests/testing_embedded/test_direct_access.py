"""Writing and reading records without a client."""

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from pykbroker import AsyncBroker, Broker, Row
from pykbroker.testing.inspection import NotReadable, TooFewRecords, UnknownTopic
from pykbroker.testing.rows import Value
from pykbroker.testing.seeding import NotWritten


@pytest.fixture(scope="module")
def kafka() -> Iterator[Broker]:
    with Broker(topics={"wide": 3, "narrow": 1, "waited": 2, "keyed": 10}) as broker:
        yield broker


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (b"\x00\xff", b"\x00\xff"),
        ("köln", "köln".encode()),
        ({"speed": 3, "at": "köln"}, '{"speed":3,"at":"köln"}'.encode()),
        ([1, None], b"[1,null]"),
        (7, b"7"),
        (True, b"true"),
        (None, None),
    ],
)
def test_values_are_converted_to_bytes(kafka: Broker, value: Value, stored: bytes | None) -> None:
    kafka.produce("narrow", [value])
    assert kafka.records("narrow")[-1].value == stored


def test_rows_without_a_key_are_distributed_round_robin(kafka: Broker) -> None:
    kafka.produce("wide", ["a", "b", "c", "d"])
    found = [(it.partition, it.offset, it.text) for it in kafka.records("wide")]
    assert found == [(0, 0, "a"), (0, 1, "d"), (1, 0, "b"), (2, 0, "c")]
    assert [it.text for it in kafka.records("wide", partition=0)] == ["a", "d"]


@pytest.mark.parametrize("partition", [3, -1])
def test_an_unknown_partition_raises_unknown_topic(kafka: Broker, partition: int) -> None:
    with pytest.raises(UnknownTopic, match=f"topic 'wide' has no partition {partition}"):
        kafka.records("wide", partition=partition)
    with pytest.raises(UnknownTopic, match=f"topic 'wide' has no partition {partition}"):
        kafka.arrow("wide", partition=partition)


@pytest.mark.parametrize("end", ["reset", "restart", "crash", "stop"])
async def test_wait_for_raises_not_readable_when_the_topic_is_deleted(end: str) -> None:
    async with AsyncBroker(topics=["trucks"]) as kafka:
        kafka.produce("trucks", ["before"])
        waiting = asyncio.create_task(kafka.wait_for("trucks", count=2))
        await asyncio.sleep(0)
        await getattr(kafka, end)()
        with pytest.raises(NotReadable, match="deleted or reset, or the broker stopped"):
            await waiting


def test_keys_are_partitioned_like_in_the_java_client(kafka: Broker) -> None:
    from kafka import KafkaProducer

    keys = [f"truck-{number}" for number in range(20)]
    kafka.produce("keyed", [{"id": key} for key in keys], key="id")
    seeded = {it.key: it.partition for it in kafka.records("keyed")}
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap)
    sent = {key: producer.send("keyed", b"", key=key.encode()) for key in keys}
    assert seeded == {key.encode(): it.get(10).partition for key, it in sent.items()}
    producer.close()


def test_a_row_sets_all_fields_of_a_record(kafka: Broker) -> None:
    row = Row("v", key="k", partition=1, headers={"h": "x", "none": None}, timestamp_ms=12)
    kafka.produce("wide", [row])
    record = kafka.records("wide")[-1 - len(kafka.records("wide", partition=2))]
    assert (record.key, record.value, record.partition) == (b"k", b"v", 1)
    assert record.headers == (("h", b"x"), ("none", None))
    assert record.timestamp_ms == 12


def test_a_key_can_be_a_field_or_a_function(kafka: Broker) -> None:
    kafka.produce("narrow", [{"a": 1}], key=lambda row: f"k{row['a']}")
    assert kafka.records("narrow")[-1].key == b"k1"
    with pytest.raises(TypeError, match="has no fields"):
        kafka.produce("narrow", ["text"], key="a")


def test_many_rows_are_written_in_several_batches(kafka: Broker) -> None:
    kafka.create_topics(["many"])
    count = kafka.produce("many", (str(number) for number in range(100_000)))
    found = kafka.records("many")
    assert count == len(found) == 100_000
    assert [it.offset for it in found] == list(range(100_000))


def test_rejected_rows_raise_not_written(kafka: Broker) -> None:
    with pytest.raises(NotWritten, match="narrow-0: MESSAGE_TOO_LARGE"):
        kafka.produce("narrow", [bytes(2_000_000)])
    with pytest.raises(NotWritten, match=r"topic .narrow. has no partition 1"):
        kafka.produce("narrow", ["a"], partition=1)
    with pytest.raises(UnknownTopic, match=r"topic .tricks. does not exist; known topics: .*wide"):
        kafka.records("tricks")


def test_wait_for_returns_with_the_last_record(kafka: Broker) -> None:
    def write_one_by_one() -> None:
        for number in range(4):
            kafka.produce("waited", [str(number)], partition=number % 2)
            time.sleep(0.01)

    writing = threading.Thread(target=write_one_by_one)
    writing.start()
    found = kafka.wait_for("waited", count=4)
    writing.join()
    assert [it.text for it in found] == ["0", "2", "1", "3"]


def test_wait_for_lists_existing_records_on_timeout(kafka: Broker) -> None:
    kafka.create_topics(["slow"])
    kafka.produce("slow", [Row("v", key="k")])
    with pytest.raises(TooFewRecords) as failure:
        kafka.wait_for("slow", count=2, timeout_seconds=0.05)
    assert str(failure.value) == (
        "slow has 1 of 2 records after 0.05 s\n  slow-0@0: key=b'k' value=b'v'"
    )


def test_deleted_records_are_not_returned(kafka: Broker) -> None:
    from kafka import KafkaAdminClient, TopicPartition

    kafka.create_topics(["cut"])
    kafka.produce("cut", ["a", "b", "c"])
    admin = KafkaAdminClient(bootstrap_servers=kafka.bootstrap)
    admin.delete_records({TopicPartition("cut", 0): 2})
    admin.close()
    assert [it.text for it in kafka.records("cut")] == ["c"]


def test_an_unknown_group_has_no_offsets(kafka: Broker) -> None:
    assert kafka.offsets("nobody") == {}


@pytest.mark.parametrize("mistaken", ["text", b"bytes", {"a": "field"}])
def test_a_single_value_instead_of_a_list_raises_type_error(kafka: Broker, mistaken: Any) -> None:
    with pytest.raises(TypeError, match="rows must be a list of values; did you mean "):
        kafka.produce("narrow", mistaken)
