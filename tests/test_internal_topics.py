"""Where a group or a transactional id lives among the partitions of its topic."""

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
def test_texts_have_javas_hash(text: str, expected: int) -> None:
    assert java_hash(text) == expected


@pytest.mark.parametrize(
    ("name", "partition"),
    [
        ("", 0),
        ("abc", 54),
        ("bytes-1795022217856940775-group", 1),  # its hash is negative: the sign alone is dropped
        ("polygenelubricants", 0),
    ],
)
def test_a_name_lives_where_apache_looks_for_it(name: str, partition: int) -> None:
    assert partition_of_name(name, 100) == partition
