"""Arrow tables of topics equal their records and share the bytes of the log."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pykbroker import AsyncBroker, Broker, Row, Topic

ROWS = [
    Row("short", key="k"),
    Row("a value of more than twelve bytes", key="a key of more than twelve bytes"),
    Row(None, key="gone", timestamp_ms=5),
    Row("", headers={"h": "not in the table"}),
]


def same_as_records(kafka: Broker, topic: str) -> Any:
    """The table of a topic, compared with its records."""
    table = kafka.arrow(topic)
    table.validate(full=True)
    assert table.to_pylist() == [
        {
            "partition": it.partition,
            "offset": it.offset,
            "timestamp": pa.scalar(it.timestamp_ms, pa.timestamp("ms", tz="UTC")).as_py(),
            "key": it.key,
            "value": it.value,
        }
        for it in kafka.records(topic)
    ]
    return table


def test_a_table_equals_the_records() -> None:
    with Broker(topics={"trucks": 3, "empty": 2}) as kafka:
        kafka.produce("trucks", ROWS * 5)
        table = same_as_records(kafka, "trucks")
        assert table.num_rows == 20
        assert same_as_records(kafka, "empty").num_rows == 0
        assert kafka.arrow("trucks", partition=1).column("partition").unique().to_pylist() == [1]
    table.validate(full=True)
    assert "short" in [(it or b"").decode() for it in table.column("value").to_pylist()]


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_batches_are_read(compression: str) -> None:
    with Broker(topics={"t": Topic(config={"compression.type": compression})}) as kafka:
        kafka.produce("t", ROWS * 100)
        same_as_records(kafka, "t")


def test_log_append_time_is_used_if_the_topic_has_it() -> None:
    with Broker(topics={"t": Topic(config={"message.timestamp.type": "LogAppendTime"})}) as kafka:
        kafka.produce("t", [Row("v", timestamp_ms=5)])
        same_as_records(kafka, "t")


def test_a_log_start_offset_inside_a_batch_is_respected() -> None:
    from kafka import KafkaAdminClient, TopicPartition

    with Broker(topics=["t"]) as kafka:
        kafka.produce("t", ["a", "b", "c"])
        admin = KafkaAdminClient(bootstrap_servers=kafka.bootstrap)
        admin.delete_records({TopicPartition("t", 0): 2})
        admin.close()
        assert same_as_records(kafka, "t").column("value").to_pylist() == [b"c"]


def test_values_are_views_of_the_mapped_segment_files() -> None:
    with Broker(topics=["t"]) as kafka:
        kafka.produce("t", [b"x" * 10_000] * 1_000)
        (values,) = kafka.arrow("t").column("value").chunks
        _, _, *buffers = values.buffers()
        maps = [it.split() for it in Path("/proc/self/maps").read_text().splitlines()]
        spans = [it[0].split("-") for it in maps if it[-1].startswith(str(kafka.directory))]
        bounds = [(int(start, 16), int(end, 16)) for start, end in spans]
        assert buffers
        for buffer in buffers:
            assert any(start <= buffer.address < end for start, end in bounds)


async def test_an_async_broker_returns_tables() -> None:
    async with AsyncBroker(["t"]) as kafka:
        kafka.produce("t", ["a"])
        assert kafka.arrow("t").column("value").to_pylist() == [b"a"]


def test_pyarrow_is_imported_only_on_use() -> None:
    program = (
        "import sys; from pykbroker import Broker, AsyncBroker\n"
        "with Broker(['t']) as kafka: kafka.produce('t', ['a']); kafka.records('t')\n"
        "assert 'pyarrow' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
