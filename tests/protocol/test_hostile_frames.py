"""Malformed frames are rejected in bounded time and memory."""

from __future__ import annotations

import time
import tracemalloc
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING

import pytest

from pykbroker_protocol.compiler import (
    MalformedMessage,
    TooManyElements,
    decode,
    encode,
    reader_of,
)
from pykbroker_protocol.explain import first_fault
from pykbroker_protocol.frame import (
    body_position,
    read_request_header,
    read_response_header,
    skip_tags,
    write_request,
)
from pykbroker_protocol.message import INT32, Message, Versions, array, string
from pykbroker_protocol.messages.api_versions import ApiVersionsResponse
from pykbroker_protocol.messages.heartbeat import HeartbeatRequest
from pykbroker_protocol.messages.join_group import JoinGroupRequest
from pykbroker_protocol.messages.metadata import MetadataRequest
from pykbroker_protocol.reader_source import ELEMENTS_MAX
from pykbroker_protocol.varint import TAGS_MAX, uvarint
from tests.protocol.random_messages import REQUESTS, RESPONSES, random_message, versions_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

EACH_REQUEST = pytest.mark.parametrize("message", REQUESTS, ids=lambda it: it.__name__)

MEMORY_PER_BYTE_MAX = 200
"""One byte can encode one empty struct, which is an object with a few fields."""
BYTES_CONSTANT = 100_000
HOSTILE_LENGTHS = (b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xff\xff\xff\xfe", b"\xff\xff\xff\xff\x0f")


def frame_of(message: Message, version: int) -> bytes:
    return b"".join(write_request(message, version, 7, "driver"))


def read_whole(data: bytes) -> None:
    """Decodes a request like a broker."""
    header = read_request_header(data)
    message = next((it for it in REQUESTS if it.api == header.api_key), None)
    if message is not None and header.api_version in message.versions:
        decode(message, header.api_version, data, body_position(header, data, message))


def corruptions(whole: bytes, random: Random) -> Iterator[bytes]:
    """Yields corrupted copies of a frame."""
    size = len(whole)
    yield whole[: random.randrange(size)]
    at = random.randrange(size)
    yield whole[:at] + bytes((whole[at] ^ (1 << random.randrange(8)),)) + whole[at + 1 :]
    at = random.randrange(8, size)
    yield whole[:at] + random.choice(HOSTILE_LENGTHS) + whole[at + 4 :]
    yield whole[:at] + random.randbytes(random.randrange(1, 9)) + whole[at:]
    yield whole[:8] + random.randbytes(size)
    yield whole[:16] + b"\0" * size
    yield whole[:16] + b"\x01" * size
    yield whole[:16] + b"\xff" * size


@EACH_REQUEST
def test_a_corrupt_frame_is_decoded_or_malformed(message: type[Message]) -> None:
    random = Random(message.__name__)
    for version in versions_of(message):
        for _ in range(4):
            whole = frame_of(random_message(message, version, random), version)
            for data in corruptions(whole, random):
                with suppress(MalformedMessage):
                    read_whole(data)


@EACH_REQUEST
def test_each_truncated_frame_is_malformed(message: type[Message]) -> None:
    for version in versions_of(message):
        whole = frame_of(message(), version)
        read_whole(whole)
        for size in range(len(whole)):
            with pytest.raises(MalformedMessage):
                read_whole(whole[:size])


@pytest.mark.parametrize("message", RESPONSES, ids=lambda it: it.__name__)
def test_a_corrupt_response_is_decoded_or_malformed(message: type[Message]) -> None:
    random = Random(message.__name__)
    for version in versions_of(message):
        whole = bytes(9) + encode(random_message(message, version, random), version)
        for data in corruptions(whole, random):
            with suppress(MalformedMessage):
                _, body = read_response_header(data, message, version)
                decode(message, version, data, body)


@EACH_REQUEST
def test_memory_for_a_frame_is_proportional_to_its_size(message: type[Message]) -> None:
    for version in versions_of(message):
        head = frame_of(message(), version)[:17]
        for fill in (b"\0", b"\x01", b"\x02", b"\x7f", b"\xff", b"\0\0\0\x01", b"\x01\x00"):
            data = head + fill * (20_000 // len(fill))
            read_ignoring_malformed(data)  # compiles the reader, which is not measured
            assert peak_of(read_ignoring_malformed, data) < memory_max(data)


def read_ignoring_malformed(data: bytes) -> None:
    with suppress(MalformedMessage):
        read_whole(data)


def memory_max(data: bytes) -> int:
    return BYTES_CONSTANT + MEMORY_PER_BYTE_MAX * len(data)


def peak_of(read: Callable[[bytes], object], data: bytes) -> int:
    tracemalloc.start()
    try:
        read(data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


FLEXIBLE_HEAD = b"\x00\x03\x00\x0c\0\0\0\x07\xff\xff\0"
EMPTY_METADATA = b"\x01\0\0"  # no topics, two booleans
COUNTS = [
    ("an array", FLEXIBLE_HEAD + uvarint(2**31), "topics: 2147483647 elements do not fit"),
    ("an array of 35 bits", FLEXIBLE_HEAD + b"\xff" * 4 + b"\x7f", "topics: .* do not fit"),
    ("an endless length", FLEXIBLE_HEAD + b"\xff" * 9, "longer than five bytes"),
    ("an old array", b"\0\x03\0\x01\0\0\0\x07\xff\xff\x7f\xff\xff\xff", "topics: 2147483647 el"),
    (
        "a negative array",
        b"\0\x03\0\x01\0\0\0\x07\xff\xff\xff\xff\xff\xfe",
        "-2 is not a valid",
    ),
    (
        "a negative string",
        b"\0\x0c\0\0\0\0\0\x07\xff\xff\xff\xfe",
        "group_id: -2 is not",
    ),
    ("tags", FLEXIBLE_HEAD + EMPTY_METADATA + uvarint(2**28), "268435456 tagged fields"),
    ("a tag", FLEXIBLE_HEAD + EMPTY_METADATA + b"\1\x07" + uvarint(2**31), "field is truncated"),
    ("header tags", FLEXIBLE_HEAD[:-1] + uvarint(2**28), "268435456 tagged fields"),
    ("a header tag", FLEXIBLE_HEAD[:-1] + b"\1\x07" + uvarint(2**31), "header tags: truncated"),
    ("a client id", b"\0\x03\0\x01\0\0\0\x07\x7f\xff", "client id is truncated"),
]


@pytest.mark.parametrize(("what", "data", "reason"), COUNTS, ids=[it[0] for it in COUNTS])
def test_lengths_are_validated_before_memory_is_allocated(
    what: str, data: bytes, reason: str
) -> None:
    assert what
    with pytest.raises(MalformedMessage, match=reason):
        read_whole(data + b"\0")
    assert peak_of(read_ignoring_malformed, data + b"\0") < BYTES_CONSTANT


def test_a_compact_string_longer_than_32767_bytes_is_malformed() -> None:
    longest = encode(HeartbeatRequest(group_id="x" * 0x7FFF, generation_id=1, member_id=""), 4)
    assert len(decode(HeartbeatRequest, 4, longest).group_id) == 0x7FFF
    longer = encode(HeartbeatRequest(group_id="x" * 0x8000, generation_id=1, member_id=""), 4)
    with pytest.raises(MalformedMessage, match="string of 32768 bytes"):
        decode(HeartbeatRequest, 4, longer)


def test_more_tags_than_the_maximum_are_malformed() -> None:
    body = encode(ApiVersionsResponse(error_code=0, api_keys=()), 3)[:-1]
    tags = b"".join(uvarint(1000 + tag) + b"\0" for tag in range(TAGS_MAX))
    read = decode(ApiVersionsResponse, 3, body + uvarint(TAGS_MAX) + tags)
    assert len(read.unknown_tags) == TAGS_MAX
    with pytest.raises(MalformedMessage, match="10001 tagged fields"):
        decode(ApiVersionsResponse, 3, body + uvarint(TAGS_MAX + 1) + tags + b"\x01\0")


class Numbers(Message):
    numbers: tuple[int, ...] = array(INT32, "0+")


class Lists(Message, versions="0"):
    lists: tuple[Numbers, ...] = array(Numbers, "0+")
    text: str = string("0+")


def test_all_arrays_of_a_message_share_one_bound() -> None:
    half = ELEMENTS_MAX // 2
    numbers = half.to_bytes(4) + bytes(4 * half)
    assert len(decode(Lists, 0, (1).to_bytes(4) + numbers + b"\0\0").lists[0].numbers) == half
    with pytest.raises(TooManyElements, match="numbers"):
        decode(Lists, 0, (2).to_bytes(4) + 2 * numbers + b"\0\0")


def test_a_caller_can_lower_the_bound_of_elements() -> None:
    three = (1).to_bytes(4) + (2).to_bytes(4) + bytes(8) + b"\0\0"
    assert len(reader_of(Lists, 0)(three, 0, 3)[0].lists[0].numbers) == 2
    with pytest.raises(TooManyElements, match="numbers"):
        reader_of(Lists, 0)(three, 0, 2)


# Frames can have 100 MB. Quadratic work would be noticeable already in these frames of 1 MB.
EXPENSIVE_FRAMES = {
    "header tags": FLEXIBLE_HEAD[:-1] + uvarint(500_000) + bytes(1_000_000),
    "tags": FLEXIBLE_HEAD + EMPTY_METADATA + uvarint(500_000) + b"\x7f\0" * 500_000,
    "tags of many structs": b"\0\x0b\0\x07\0\0\0\x07\xff\xff\0" + b"\1\0\0\0\0\0\0\0\0\1\1\1"
    + uvarint(101) + 100 * (b"\1\1" + uvarint(5_000) + b"\x7f\0" * 5_000),
    "empty structs": FLEXIBLE_HEAD + uvarint(900_000) + bytes(1_000_000),
}  # fmt: skip


@pytest.mark.parametrize("what", EXPENSIVE_FRAMES)
def test_an_expensive_frame_is_processed_within_seconds(what: str) -> None:
    data = EXPENSIVE_FRAMES[what]
    start = time.process_time()
    read_ignoring_malformed(data)
    first_fault(data)
    assert time.process_time() - start < 3


def test_the_expensive_frames_reach_the_intended_code() -> None:
    data = EXPENSIVE_FRAMES["tags of many structs"]
    position = body_position(read_request_header(data), data, JoinGroupRequest)
    read = decode(JoinGroupRequest, 7, data + b"\0", position)
    assert [len(it.unknown_tags) for it in read.protocols] == [5_000] * 100
    assert MetadataRequest.versions == Versions(0, 13)
    with pytest.raises(MalformedMessage, match="header tags: 500000 tagged fields"):
        skip_tags(EXPENSIVE_FRAMES["header tags"], len(FLEXIBLE_HEAD) - 1)
