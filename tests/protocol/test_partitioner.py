"""Keys are mapped to the partitions of the Java client."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykbroker_protocol.partitioner import murmur2, partition_of_key


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_equals_the_hash_of_the_java_client(key: bytes, hashed: int) -> None:
    assert murmur2(key) == hashed & 0xFFFFFFFF


@given(key=st.binary(max_size=64), count=st.integers(1, 1000))
def test_kafka_python_chooses_the_same_partition(key: bytes, count: int) -> None:
    from kafka.partitioner.default import murmur2 as kafka_pythons

    assert murmur2(key) == kafka_pythons(key) & 0xFFFFFFFF
    assert partition_of_key(key, count) == (kafka_pythons(key) & 0x7FFFFFFF) % count
