"""What the hostile client sends is what the broker's own protocol reads."""

import pytest

from benchmarks.clients.hostile_request import CHANGES, GROWN_BY, KINDS
from benchmarks.workloads.hostile_requests import REQUESTS
from pykbroker_protocol.compiler import decode
from pykbroker_protocol.frame import body_position, read_request_header, write_request


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_request_is_read_as_it_was_meant(kind: str) -> None:
    asked = KINDS[kind](GROWN_BY + 3, "topic")
    assert len(asked) > 1 or kind not in CHANGES
    for request, version in asked[:3]:
        frame = b"".join(write_request(request, version, 7, "hostile"))
        position = body_position(read_request_header(frame), frame, type(request))
        read = decode(type(request), version, frame, position)
        assert b"".join(write_request(read, version, 7, "hostile")) == frame


def test_every_kind_is_measured() -> None:
    assert {kind for _, kind, _ in REQUESTS} == KINDS.keys()
