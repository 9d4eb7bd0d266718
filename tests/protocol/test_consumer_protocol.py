"""Encoding and decoding of ConsumerProtocol."""

from collections.abc import Callable

import pytest

from pykbroker_protocol.compiler import MalformedMessage
from pykbroker_protocol.consumer_protocol import (
    encode_assignment,
    encode_topics,
    read_assignment,
    read_subscription,
)


@pytest.mark.parametrize("version", range(4))
def test_subscriptions_and_assignments_are_decoded_to_the_encoded_values(version: int) -> None:
    topics = ["trucks", "depots"]
    assert read_subscription(encode_topics(topics, version)).topics == topics
    assigned = {"trucks": [0, 2], "depots": [1]}
    assert read_assignment(encode_assignment(assigned, version)) == assigned


def test_an_empty_assignment_has_no_partitions() -> None:
    assert read_assignment(b"") == {}


def test_a_newer_version_is_read_as_the_newest_known() -> None:
    newer = b"\0\x63" + encode_assignment({"trucks": [1]}, 3)[2:] + b"more"
    assert read_assignment(newer) == {"trucks": [1]}


@pytest.mark.parametrize("read", [read_subscription, read_assignment])
@pytest.mark.parametrize("data", [b"\0", b"\xff\xff\0", b"\0\0\0\0\0\x09"])
def test_invalid_bytes_are_malformed(read: Callable[[bytes], object], data: bytes) -> None:
    with pytest.raises(MalformedMessage):
        read(data)
