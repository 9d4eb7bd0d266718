"""Frames of stock clients and of Apache Kafka go through the codec unchanged."""

from __future__ import annotations

import pytest

from pykbroker_protocol import frame
from pykbroker_protocol.compiler import reader_of
from tests.protocol.golden import GOLDEN, Golden

# librdkafka writes one byte behind its request; a broker reads the message and ignores the rest.
BYTES_BEHIND = {"051_v0.confluent1.req": b"\0"}


def through_the_codec(golden: Golden, data: bytes | bytearray | memoryview) -> bytes:
    """Header and message decoded and encoded again, with whatever lies behind them."""
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
    assert data[end:] == BYTES_BEHIND.get(golden.name, b"")
    return b"".join(written) + data[end:]


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda it: it.name)
def test_a_real_frame_is_read_and_written_to_the_same_bytes(golden: Golden) -> None:
    data = golden.read()
    for buffer in (data, bytearray(data), memoryview(data)):
        assert through_the_codec(golden, buffer) == data


def test_the_frames_of_every_client_are_there() -> None:
    clients = {it.name.split(".")[1].rstrip("12") for it in GOLDEN}
    assert clients == {"aiokafka", "confluent", "kafka-python", "spark", "tools"}
    assert len(GOLDEN) > 600
