"""The codec decodes frames of stock clients and Apache Kafka and encodes them to the same bytes."""

from __future__ import annotations

from collections import Counter

import pytest

from pykbroker_protocol import frame
from pykbroker_protocol.compiler import reader_of
from tests.protocol.golden import GOLDEN, Golden

# librdkafka sends one extra byte after this request; brokers ignore it.
BYTES_AFTER_MESSAGE = {"confluent/051_v0.1.req": b"\0"}


def decode_and_encode(golden: Golden, data: bytes | bytearray | memoryview) -> bytes:
    """Returns the frame after decoding and encoding header and message."""
    message, version = golden.message, golden.version
    if golden.is_request:
        header = frame.read_request_header(data)
        assert (header.api_key, header.api_version) == (message.api, version)
        body = frame.body_position(header, data, message)
        value, end = reader_of(message, version)(data, body)
        written = frame.write_request(value, version, header.correlation_id, header.client_id)
    else:
        correlation_id, body = frame.read_response_header(data, message, version)
        value, end = reader_of(message, version)(data, body)
        written = frame.write_response(value, version, correlation_id)
    assert data[end:] == BYTES_AFTER_MESSAGE.get(golden.name, b"")
    return b"".join(written) + data[end:]


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda it: it.name)
def test_a_frame_is_encoded_to_the_bytes_it_was_decoded_from(golden: Golden) -> None:
    data = golden.read()
    for buffer in (data, bytearray(data), memoryview(data)):
        assert decode_and_encode(golden, buffer) == data


def test_each_client_has_its_frames() -> None:
    counts = Counter(it.client for it in GOLDEN)
    assert set(counts) == {"aiokafka", "confluent", "kafka-python", "spark", "tools"}
    assert counts.total() == 615
