"""Requests are handed out in order unless the stream is blocked; responses keep their order."""

import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykbroker.apis.answers import ProtocolViolation
from pykbroker.framing.frame_reader import Scratch
from pykbroker.transport.limits import ConnectionLimits
from pykbroker.transport.request_stream import RequestStream, ResponseSlot

LIMITS = ConnectionLimits(request_bytes_max=1000)


def stream_with(*bodies: bytes, limits: ConnectionLimits = LIMITS) -> RequestStream:
    stream = RequestStream(Scratch(), limits)
    feed(stream, *bodies)
    return stream


def feed(stream: RequestStream, *bodies: bytes) -> None:
    for body in bodies:
        stream.reader.buffer()[: 4 + len(body)] = struct.pack(">i", len(body)) + body
        stream.received(4 + len(body))


def sent(stream: RequestStream) -> list[bytes]:
    """Returns the released responses without size prefix."""
    data = b"".join(stream.take_outgoing())
    responses = []
    while data:
        (size,) = struct.unpack_from(">i", data)
        responses.append(data[4 : 4 + size])
        data = data[4 + size :]
    return responses


def take(stream: RequestStream) -> bytes | None:
    frame = stream.next_request()
    return None if frame is None else bytes(frame)


class How:
    """Ways to answer a request."""

    AT_ONCE = "at once"
    NOT_AT_ALL = "not at all"
    LATER = "later"
    LATER_WITH_NOTHING = "later, with nothing"


@given(
    hows=st.lists(
        st.sampled_from([How.AT_ONCE, How.NOT_AT_ALL, How.LATER, How.LATER_WITH_NOTHING]),
        max_size=30,
    ),
    data=st.data(),
)
def test_responses_are_released_in_request_order(hows: list[str], data: st.DataObject) -> None:
    stream = stream_with(*(bytes([n]) for n in range(len(hows))))
    open_slots: list[tuple[ResponseSlot, int]] = []
    left: list[bytes] = []
    more = st.booleans()

    def complete_one() -> None:
        n_th = data.draw(st.integers(0, len(open_slots) - 1))
        slot, n = open_slots.pop(n_th)
        stream.complete(slot, None if hows[n] == How.LATER_WITH_NOTHING else [bytes([n])])

    for n, how in enumerate(hows):
        assert take(stream) == bytes([n])
        match how:
            case How.AT_ONCE:
                stream.respond([bytes([n])])
            case How.NOT_AT_ALL:
                stream.respond(None)
            case _:
                open_slots.append((stream.defer(pipelined=True), n))
        while bool(open_slots) and data.draw(more):
            complete_one()
        left += sent(stream)
    while open_slots:
        complete_one()
        left += sent(stream)
    silent = {How.NOT_AT_ALL, How.LATER_WITH_NOTHING}
    assert left == [bytes([n]) for n, how in enumerate(hows) if how not in silent]
    assert stream.open_slots == 0


def test_a_muting_request_blocks_the_stream_until_its_response() -> None:
    stream = stream_with(b"1", b"2")
    take(stream)
    slot = stream.defer(pipelined=False)
    assert take(stream) is None
    stream.complete(slot, [b"one"])
    assert take(stream) == b"2"


def test_a_mute_ends_with_its_response_even_if_that_waits_for_an_earlier_one() -> None:
    stream = stream_with(b"1", b"2", b"3")
    take(stream)
    first = stream.defer(pipelined=True)
    take(stream)
    stream.complete(stream.defer(pipelined=False), [b"two"])
    assert sent(stream) == []
    assert take(stream) == b"3"
    stream.respond([b"three"])
    stream.complete(first, [b"one"])
    assert sent(stream) == [b"one", b"two", b"three"]


def test_requests_in_flight_are_bounded() -> None:
    stream = stream_with(b"1", b"2", b"3", limits=replace(LIMITS, requests_in_flight_max=2))
    take(stream)
    first = stream.defer(pipelined=True)
    take(stream)
    stream.respond([b"two"])
    assert take(stream) is None
    stream.complete(first, [b"one"])
    assert take(stream) == b"3"


def test_bytes_of_held_responses_are_bounded() -> None:
    stream = stream_with(b"1", b"2", b"3", limits=replace(LIMITS, held_bytes_max=10))
    take(stream)
    first = stream.defer(pipelined=True)
    take(stream)
    stream.respond([b"0123456789", b"x"])
    assert take(stream) is None
    stream.complete(first, [b"one"])
    assert sent(stream) == [b"one", b"0123456789x"]
    assert take(stream) == b"3"


def test_the_stream_blocks_while_the_peer_does_not_read() -> None:
    stream = stream_with(b"1")
    stream.peer_reads(reads=False)
    assert take(stream) is None
    stream.peer_reads(reads=True)
    assert take(stream) == b"1"


def test_requests_received_while_blocked_keep_their_order() -> None:
    stream = stream_with(b"1", b"2")
    take(stream)
    slot = stream.defer(pipelined=False)
    feed(stream, b"3", b"4")
    stream.complete(slot, None)
    assert [take(stream) for _ in range(4)] == [b"2", b"3", b"4", None]


def test_requests_before_a_violation_are_handed_out_first() -> None:
    stream = stream_with(b"1")
    stream.reader.buffer()[:4] = struct.pack(">i", -5)
    stream.received(4)
    assert take(stream) == b"1"
    stream.respond([b"one"])
    with pytest.raises(ProtocolViolation, match="-5"):
        stream.next_request()
    assert sent(stream) == [b"one"]


def test_a_new_frame_limit_applies_to_the_next_frame() -> None:
    stream = stream_with()
    stream.apply(replace(LIMITS, request_bytes_max=3))
    feed(stream, b"four")
    with pytest.raises(ProtocolViolation, match="maximum of 3"):
        stream.next_request()


def test_a_second_response_to_a_request_is_a_bug() -> None:
    stream = stream_with(b"1", b"2")
    take(stream)
    stream.defer(pipelined=True)
    take(stream)
    slot = stream.defer(pipelined=True)
    stream.complete(slot, None)
    with pytest.raises(AssertionError, match="one response"):
        stream.complete(slot, None)
