"""Parsing of input lines and formatting of records."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykbroker.cli.command_line import read_command_line
from pykbroker.cli.failure import CannotBegin
from pykbroker.cli.record_format import record_format
from pykbroker.cli.record_lines import InvalidLine, line_reader
from pykbroker.client.producer import NewRecord
from pykbroker_protocol.records.record import Record


def read(line: bytes, *arguments: str) -> NewRecord:
    return line_reader(read_command_line(["produce", "trucks", *arguments]))(line)


def formatted(record: Record, *arguments: str, partition: int = 3) -> str:
    options = read_command_line(["consume", "trucks", *arguments])
    return record_format(options)(partition, record).decode()


@pytest.mark.parametrize(
    ("line", "arguments", "record"),
    [
        (b"v", (), NewRecord(key=None, value=b"v")),
        (b"", (), NewRecord(key=None, value=b"")),
        (b"v", ("--key", "k"), NewRecord(key=b"k", value=b"v")),
        (b"k:v:w", ("--key-separator", ":"), NewRecord(key=b"k", value=b"v:w")),
        (b"k\tv", ("--key-separator", r"\t"), NewRecord(key=b"k", value=b"v")),
        (b"k:-", ("--key-separator", ":", "--null", "-"), NewRecord(key=b"k", value=None)),
        (b"-:v", ("--key-separator", ":", "--null", "-"), NewRecord(key=None, value=b"v")),
        (
            b"v",
            ("--header", "a=1", "--header", "a=2", "--partition", "2", "--timestamp", "@5"),
            NewRecord(
                key=None,
                value=b"v",
                headers=(("a", b"1"), ("a", b"2")),
                partition=2,
                timestamp=5,
            ),
        ),
    ],
)
def test_a_line_is_parsed_as_a_record(
    line: bytes, arguments: tuple[str, ...], record: NewRecord
) -> None:
    assert read(line, *arguments) == record


@pytest.mark.parametrize(
    ("document", "record"),
    [
        ({}, NewRecord(key=None, value=None)),
        ({"key": "k", "value": None}, NewRecord(key=b"k", value=None)),
        ({"value": {"speed": 80}}, NewRecord(key=None, value=b'{"speed":80}')),
        ({"value": 1.5, "key": 7}, NewRecord(key=b"7", value=b"1.5")),
        ({"value_base64": "/w=="}, NewRecord(key=None, value=b"\xff")),
        (
            {"headers": {"a": "1", "b": None}},
            NewRecord(key=None, value=None, headers=(("a", b"1"), ("b", None))),
        ),
        (
            {"headers": [{"name": "a", "value_base64": "/w=="}], "partition": 1, "timestamp": 2},
            NewRecord(key=None, value=None, headers=(("a", b"\xff"),), partition=1, timestamp=2),
        ),
    ],
)
def test_a_json_object_is_parsed_as_a_record(document: dict[str, Any], record: NewRecord) -> None:
    assert read(json.dumps(document).encode(), "--json-lines") == record


@pytest.mark.parametrize(
    ("line", "arguments"),
    [
        (b"no separator", ("--key-separator", ":")),
        (b"{", ("--json-lines",)),
        (b"[]", ("--json-lines",)),
        (b'{"partition": "one"}', ("--json-lines",)),
        (b'{"partition": true}', ("--json-lines",)),
        (b'{"value_base64": "!"}', ("--json-lines",)),
        (b'{"headers": [{}]}', ("--json-lines",)),
        (b"\xff", ("--json-lines",)),
        (b"[" * 100_000, ("--json-lines",)),
        (b'{"value": ' + b"[" * 100_000, ("--json-lines",)),
        (b'{"partition": -1}', ("--json-lines",)),
        (b'{"partition": 2147483648}', ("--json-lines",)),
        (b'{"timestamp": 100000000000000000000}', ("--json-lines",)),
        (b'{"timestamp": -2}', ("--json-lines",)),
        (b'{"timestamp": 9223372036854775807}', ("--json-lines",)),
        (b'{"headers": [{"name": 5}]}', ("--json-lines",)),
        (b'{"headers": {"\\ud800": "1"}}', ("--json-lines",)),
        (b'{"vlaue": 1}', ("--json-lines",)),
        (b'{"value": 1, "Key": 1}', ("--json-lines",)),
        (b'{"headers": [{"name": "a", "vlaue": "b"}]}', ("--json-lines",)),
        (b'{"headers": ["a"]}', ("--json-lines",)),
        (b'{"value": 1, "value_base64": "/w=="}', ("--json-lines",)),
    ],
)
def test_an_invalid_line_is_rejected(line: bytes, arguments: tuple[str, ...]) -> None:
    with pytest.raises(InvalidLine):
        read(line, *arguments)


def test_an_unknown_field_is_named() -> None:
    """A misspelt `value` would write a tombstone."""
    with pytest.raises(InvalidLine, match="unknown field 'vlaue', use headers, key, key_base64"):
        read(b'{"key": "k", "vlaue": 1}', "--json-lines")


RECORD = Record(
    offset=12, timestamp=1_700_000_000_123, key=b"k", value=b"v", headers=(("h", b"1"), ("n", None))
)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ((), "v\n"),
        (("--keys",), "k\tv\n"),
        (("--keys", "--headers", "--separator", "|"), "h=1,n=null|k|v\n"),
        (
            (
                "--format",
                "{topic}/{partition}@{offset:>4} {time} {timestamp} {key}={value} {headers}",
            ),
            "trucks/3@  12 2023-11-14T22:13:20.123Z 1700000000123 k=v h=1,n=null\n",
        ),
        (("--format", r"{key}\t{value}"), "k\tv\n"),
        (("--format", "{{{key}}}"), "{k}\n"),
    ],
)
def test_a_record_is_formatted_as_a_line(arguments: tuple[str, ...], line: str) -> None:
    assert formatted(RECORD, *arguments) == line


def test_null_is_printed_as_the_given_text() -> None:
    tombstone = Record(offset=0, timestamp=0, key=b"k", value=None)
    assert formatted(tombstone, "--keys", "--null", "∅") == "k\t∅\n"
    assert formatted(tombstone, "--format", "{value}") == "null\n"


def test_undecodable_bytes_are_unchanged_as_text_and_escaped_in_a_template() -> None:
    record = Record(offset=0, timestamp=0, key=None, value=b"\xff")
    options = read_command_line(["consume", "trucks"])
    assert record_format(options)(0, record) == b"\xff\n"
    assert formatted(record, "--format", "{value}") == "\\xff\n"


@pytest.mark.parametrize(
    "template",
    [
        "{",
        "{speed}",
        "plain",
        "{key.__class__}",
        "{key:d}",
        "{}",
        "{offset:>10000}",
        "{key:{value}}",
    ],
)
def test_an_invalid_template_is_rejected_before_reading(template: str) -> None:
    with pytest.raises(CannotBegin, match="--format"):
        record_format(read_command_line(["consume", "trucks", "--format", template]))


content = st.none() | st.binary(max_size=20)


@given(
    key=content,
    value=content,
    headers=st.lists(st.tuples(st.text(max_size=5), content), max_size=3),
    timestamp=st.integers(0, 2**62),
)
def test_a_record_formatted_as_json_is_parsed_to_the_same_record(
    key: bytes | None,
    value: bytes | None,
    headers: list[tuple[str, bytes | None]],
    timestamp: int,
) -> None:
    record = Record(offset=1, timestamp=timestamp, key=key, value=value, headers=tuple(headers))
    line = formatted(record, "--format", "json", partition=5)
    assert read(line.encode(), "--json-lines") == NewRecord(
        key=key, value=value, headers=tuple(headers), partition=5, timestamp=timestamp
    )
