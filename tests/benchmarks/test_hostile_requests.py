"""Requests of the hostile client are valid."""

import pytest

from benchmarks.clients.hostile_request import CHANGES, GROWN_BY, KINDS
from benchmarks.workloads.hostile_requests import REQUESTS
from pykbroker_protocol.compiler import decode
from pykbroker_protocol.frame import body_position, read_request_header, write_request


@pytest.mark.parametrize("kind", KINDS)
def test_requests_are_equal_after_decoding_and_encoding(kind: str) -> None:
    requests = KINDS[kind](GROWN_BY + 3, "topic")
    assert len(requests) > 1 or kind not in CHANGES
    for request, version in requests[:3]:
        frame = b"".join(write_request(request, version, 7, "hostile"))
        position = body_position(read_request_header(frame), frame, type(request))
        read = decode(type(request), version, frame, position)
        assert b"".join(write_request(read, version, 7, "hostile")) == frame


def test_every_kind_is_measured() -> None:
    assert {kind for _, kind, _ in REQUESTS} == KINDS.keys()
