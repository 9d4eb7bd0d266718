"""Groups and transactional ids are mapped to partitions like in Apache Kafka."""

import pytest

from pykbroker.internal_topics import java_hash, partition_of_name


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("abc", 96_354),
        ("bytes-1795022217856940775-group", -252_027_201),
        ("polygenelubricants", -(2**31)),
        ("\N{GRINNING FACE}", 1_772_899),
    ],
)
def test_java_hash_equals_string_hash_code(text: str, expected: int) -> None:
    assert java_hash(text) == expected


@pytest.mark.parametrize(
    ("name", "partition"),
    [
        ("", 0),
        ("abc", 54),
        ("bytes-1795022217856940775-group", 1),  # a negative hash
        ("polygenelubricants", 0),
    ],
)
def test_a_name_is_mapped_to_the_partition_of_apache_kafka(name: str, partition: int) -> None:
    assert partition_of_name(name, 100) == partition
