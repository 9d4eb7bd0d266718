"""Arbitrary bytes from a peer close its connection with a reason and affect no other."""

from __future__ import annotations

import re
import socket
import time
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING

import pytest

from pykbroker.framing.frame_reader import FIRST_BYTES, SPARE_BYTES_MAX, SPARES_MAX
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.frame import write_request
from pykbroker_protocol.messages.api_versions import ApiVersionsRequest
from pykbroker_protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from pykbroker_protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.apis.request_builders import (
    batch,
    created,
    fetched,
    from_partition,
    new_topic,
    produced,
    to_partition,
)
from tests.apis.wire import Closed, Wire
from tests.end_to_end.load import create_topic
from tests.end_to_end.test_readers_in_the_middle import MEBIBYTE, resident_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from compat.broker_process import BrokerProcess
    from tests.end_to_end.conftest import StartBroker

SEED = 20261118
CLOSING = re.compile(r"WARNING client .* at 127\.0\.0\.1:\d+ .*: connection closed \(\S")


def is_served(broker: BrokerProcess) -> bool:
    with Wire(broker.port) as wire:
        return bool(wire.ask(ApiVersionsRequest(), 0).error_code == 0)


def until_logged(broker: BrokerProcess, text: str) -> None:
    deadline = time.monotonic() + 20
    while text not in broker.log():
        assert time.monotonic() < deadline, broker.log()
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("note", "data", "reason"),
    [
        ("a negative size", b"\xff\xff\xff\xff", "frame size -1 is negative"),
        (
            "a size beyond the limit",
            b"\x7f\xff\xff\xff",
            "frame size 2147483647 exceeds the maximum",
        ),
        ("another protocol", b"GET / HTTP/1.1\r\n\r\n", "received HTTP"),
        (
            "a handshake of TLS",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            "received TLS",
        ),
        ("an empty frame", b"\0\0\0\0", "request_api_key at byte 0"),
        ("an unknown key", b"\0\0\0\x0a\x7f\xff\0\0\0\0\0\1\xff\xff", "api key 32767"),
        (
            "a cut body",
            b"\0\0\0\x0c\0\3\0\1\0\0\0\1\xff\xff\0\0",
            "closed (MetadataRequest version 1, topics",
        ),
        (
            "a count of billions",
            b"\0\0\0\x0e\0\3\0\1\0\0\0\1\xff\xff\x7f\xff\xff\xff",
            "closed (MetadataRequest version 1, topics",
        ),
    ],
)
def test_a_malformed_frame_closes_its_connection_with_one_log_line(
    broker: BrokerProcess, note: str, data: bytes, reason: str
) -> None:
    with Wire(broker.port) as wire:
        wire.send_bytes(data)
        with pytest.raises(Closed):
            wire.receive_frame()
    until_logged(broker, reason)
    lines = [line for line in broker.log().splitlines() if CLOSING.search(line)]
    assert len(lines) == 1, note
    assert is_served(broker)


def test_a_regular_expression_of_a_million_empty_groups_is_refused(broker: BrokerProcess) -> None:
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="hostile",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_regex="((" + "()" * 4_000 + "){1000}){1000}",
        topic_partitions=(),
    )
    with Wire(broker.port) as wire:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        deadline = time.monotonic() + 20
        while code in {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}:
            assert time.monotonic() < deadline, "the coordinator is not there"
            wire.ask(FindCoordinatorRequest(key="", coordinator_keys=("g",)), 4)
            code = wire.ask(request, 1).error_code
    assert code == ErrorCode.INVALID_REGULAR_EXPRESSION
    until_logged(broker, "group g: regular expression refused: expression too large")
    assert is_served(broker)


def requests() -> Iterator[bytes]:
    """Returns valid frames, which tests corrupt."""
    data = to_partition(batch(b"a" * 50, b"b"), topic="t")
    for message, version in (
        (produced(data), 3),
        (produced(data), 9),
        (fetched(from_partition(topic="t")), 4),
        (fetched(from_partition(topic="t")), 12),
        (created(new_topic("made", 1)), 4),
        (created(new_topic("made", 1)), 7),
        (ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3),
    ):
        yield b"".join(write_request(message, version, 7, "hostile"))


def spoilt(frame: bytes, chance: Random) -> bytes:
    damaged = bytearray(frame)
    match chance.randrange(4):
        case 0:
            damaged = damaged[: chance.randrange(len(damaged))]
        case 1:
            for _ in range(chance.randint(1, 4)):
                damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        case 2:
            at = chance.randrange(len(damaged))
            damaged[at:at] = chance.randbytes(chance.randint(1, 8))
        case _:
            damaged[chance.randrange(4, len(damaged)) :] = chance.randbytes(chance.randint(1, 99))
    return bytes(damaged)


def test_malformed_frames_cost_a_connection_and_little_memory(broker: BrokerProcess) -> None:
    chance = Random(SEED)
    create_topic(broker, "t", 1)
    frames = list(requests())
    assert is_served(broker)
    before = resident_bytes(broker)
    for _ in range(200):
        with Wire(broker.port) as wire, suppress(Closed):
            for _ in range(20):
                wire.send_frame(spoilt(chance.choice(frames), chance))
    assert is_served(broker)
    assert broker.is_running
    assert resident_bytes(broker) - before < 40 * MEBIBYTE
    assert len(broker.log()) < 100_000  # repeated lines are counted, not printed
    assert "internal error" not in broker.log()


def test_a_large_frame_size_with_few_bytes_costs_bounded_memory(broker: BrokerProcess) -> None:
    assert is_served(broker)
    before = resident_bytes(broker)
    waiting = [Wire(broker.port) for _ in range(50)]
    for wire in waiting:
        wire.send_bytes((100 << 20).to_bytes(4) + bytes(10))
    assert is_served(broker)
    growth = resident_bytes(broker) - before
    for wire in waiting:
        wire.close()
    bound = len(waiting) * FIRST_BYTES + SPARES_MAX * SPARE_BYTES_MAX + 20 * MEBIBYTE
    assert growth < bound, f"{growth >> 20} MiB more"


def test_connections_beyond_the_limit_are_closed(start_broker: StartBroker) -> None:
    broker = start_broker(settings={"max.connections.per.ip": 5})
    kept = [Wire(broker.port) for _ in range(5)]
    for wire in kept:
        assert wire.ask(ApiVersionsRequest(), 0).error_code == 0
    with Wire(broker.port) as refused, pytest.raises(Closed):
        refused.ask(ApiVersionsRequest(), 0)
    kept.pop().close()
    deadline = time.monotonic() + 20
    while True:
        try:
            assert is_served(broker)
            break
        except Closed:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    for wire in kept:
        assert wire.ask(ApiVersionsRequest(), 0).error_code == 0
        wire.close()


def test_idle_connections_are_closed(start_broker: StartBroker) -> None:
    broker = start_broker(settings={"connections.max.idle.ms": 300})
    with Wire(broker.port) as idle:
        assert idle.ask(ApiVersionsRequest(), 0).error_code == 0
        with pytest.raises(Closed):
            idle.receive_frame()
    assert is_served(broker)


def test_hundreds_of_short_connections_are_served(broker: BrokerProcess) -> None:
    for _ in range(300):
        with socket.create_connection(("127.0.0.1", broker.port)) as wire:
            wire.sendall(b"\0\0\0\x50\0\3")
    assert is_served(broker)
