"""Expected records and the explanations of differences."""

import random
from typing import Any

import pytest

from pykbroker import Record
from pykbroker.testing.matchers import a_record, containing, explain, in_any_order, shown


def record(value: bytes | None, offset: int = 0, **more: Any) -> Record:
    given = {"topic": "t", "partition": 0, "timestamp_ms": 5, "key": None, **more}
    return Record(value=value, offset=offset, **given)


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        (a_record(), record(b"a")),
        (a_record(b"a"), record(b"a")),
        (a_record("a"), record(b"a")),
        (a_record(None), record(None)),
        (a_record({"b": 1, "a": [2]}), record(b'{"a": [2], "b": 1}')),
        (a_record({"speed": pytest.approx(1.0)}), record(b'{"speed": 1.0000000001}')),
        (a_record(7), record(b"7")),
        (a_record(fields={"a": 1}), record(b'{"a": 1, "b": 2}')),
        (a_record(key="k", partition=3), record(b"", key=b"k", partition=3)),
        (a_record(key=None, topic="t", offset=9), record(b"", offset=9)),
        (a_record(headers={"h": "x"}, timestamp_ms=5), record(b"", headers=(("h", b"x"),))),
    ],
)
def test_an_expected_record_equals_a_matching_record(expected: Any, found: Record) -> None:
    assert found == expected
    assert expected == found
    assert explain(found, expected) == [shown(found)]


@pytest.mark.parametrize(
    ("expected", "found", "said"),
    [
        (a_record("a"), record(b"b"), "value is 'b', not 'a'"),
        (a_record("a"), record(b"\xff"), r"value is b'\xff', not 'a'"),
        (a_record("a"), record(None), "value is None, not 'a'"),
        (a_record(None), record(b"a"), "value is b'a', not None"),
        (a_record({"a": 1}), record(b"no json"), "value is b'no json', not {'a': 1}"),
        (a_record(fields={"a": 1}), record(b'{"a": 2}'), "fields is {'a': 2}, not {'a': 1}"),
        (a_record(fields={"a": 1}), record(b"3"), "fields is 3, not {'a': 1}"),
        (a_record(key="k"), record(b""), "key is None, not 'k'"),
        (a_record(headers={}), record(b"", headers=(("h", b"x"),)), "headers is {'h': b'x'}"),
    ],
)
def test_differing_fields_are_named(expected: Any, found: Record, said: str) -> None:
    assert found != expected
    assert said in "\n".join(explain(found, expected) or ())


def test_lists_are_compared_in_order() -> None:
    found = [record(b"a"), record(b"b", 1), record(b"c", 2)]
    assert found == [a_record("a"), a_record("b"), a_record("c")]
    assert explain(found, [a_record("a"), a_record("x", key="k")]) == [
        "records found: 3, expected: 2",
        "  equal       t-0@0: 'a'",
        "! different   t-0@1: 'b'",
        "              value is 'b', not 'x'",
        "              key is None, not 'k'",
        "+ unexpected  t-0@2: 'c'",
    ]
    assert explain([], [a_record("a")]) == [
        "records found: 0, expected: 1",
        "- missing     a_record('a')",
    ]


def test_lists_of_plain_records_are_compared() -> None:
    assert explain([record(b"a")], [record(b"a", key=b"k")]) == [
        "records found: 1, expected: 1",
        "! different   t-0@0: 'a'",
        "              key is None, not b'k'",
    ]


def test_in_any_order_ignores_order() -> None:
    found = [record(b"b"), record(b"a", 1, key=b"k"), record(b"a", 2)]
    assert found == in_any_order(["a", "a", "b"])
    assert found == in_any_order(["a", a_record("a", key="k"), "b"])
    assert found != in_any_order(["a", "b"])
    assert explain(found, in_any_order(["a", "c"])) == [
        "records do not match (found: 3)",
        "- missing     a_record('c')",
        "+ unexpected  t-0@0: 'b'",
        "+ unexpected  t-0@2: 'a'",
    ]


def test_containing_allows_further_records() -> None:
    found = [record(b"b"), record(b"a", 1)]
    assert found == containing(["a"])
    assert explain(found, containing(["a", "c"])) == [
        "records do not match (found: 2)",
        "- missing     a_record('c')",
        "  present     t-0@0: 'b'",
    ]


def test_records_are_matched_to_satisfy_all_expectations() -> None:
    chance = random.Random(1)
    for _ in range(100):
        found = [record(b"%d" % number, number, key=b"k") for number in range(6)]
        expected = [a_record(), a_record(key="k"), *(a_record(str(it)) for it in range(2, 6))]
        chance.shuffle(found)
        chance.shuffle(expected)
        assert found == in_any_order(expected)


@pytest.mark.parametrize(("left", "right"), [([1], [2]), ("a", "b"), ([], []), (None, [])])
def test_other_comparisons_are_explained_by_pytest(left: object, right: object) -> None:
    assert explain(left, right) is None
