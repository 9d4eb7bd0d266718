"""A controller in its own directory, with a fixed clock and counted random values."""

import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from compat.apache import ApacheKafka
from pykbroker.clock import SystemClock
from pykbroker.controller.controller import Controller
from pykbroker.settings import load_settings
from pykbroker_protocol.compiler import decode
from pykbroker_protocol.frame import read_response_header, write_request
from pykbroker_protocol.message import Message
from pykbroker_storage.configuration import LogConfiguration
from pykbroker_storage.log_directory import LogDirectory

CLUSTER_ID = "PyKBrokerCompatibility"
NOW_MS = 1_700_000_000_000
NODE_ID = 1


AnyMessage = TypeVar("AnyMessage", bound=Message)


class StandingClock(SystemClock):
    def now_ms(self) -> int:
        return NOW_MS

    def monotonic(self) -> float:
        return 0.0


class CountedRandomness:
    """Random numbers that are always 0, and ids that count up."""

    def __init__(self) -> None:
        self.drawn = 0

    def uuid_bytes(self) -> bytes:
        self.drawn += 1
        return b"id" + self.drawn.to_bytes(14, "big")

    def below(self, bound: int) -> int:
        assert bound > 0
        return 0


class Node:
    """Starts controllers in one directory; stops them cleanly or like a crash."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.randomness = CountedRandomness()
        self.directory: LogDirectory | None = None

    @property
    def metadata(self) -> Path:
        return self.path / "__cluster_metadata-0"

    async def start(self, *, join: bool = True, **more: Any) -> Controller:
        self.directory = LogDirectory.open(
            str(self.path),
            cluster_id=CLUSTER_ID,
            node_id=NODE_ID,
            new_directory_id=self.randomness.uuid_bytes(),
            configuration=LogConfiguration(),
        )
        controller = await Controller.open(
            self.directory,
            settings=load_settings({"node.id": str(NODE_ID), "log.dirs": str(self.path)}),
            clock=StandingClock(),
            randomness=self.randomness,
            **more,
        )
        if join:
            await controller.join(listeners={"PLAINTEXT": ("127.0.0.1", 9092)}, rack=None)
        return controller

    async def stop(self, controller: Controller) -> None:
        await controller.close()
        assert self.directory is not None
        self.directory.close({}, now_ms=NOW_MS)
        self.directory = None

    def crash(self) -> None:
        if self.directory is not None:
            self.directory.abandon()
            self.directory = None


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path / "data")
    yield node
    node.crash()


class Oracle:
    """Sends requests to Apache Kafka."""

    def __init__(self, port: int) -> None:
        self._port = port

    def __call__(self, request: Message, version: int, response: type[AnyMessage]) -> AnyMessage:
        frame = b"".join(bytes(it) for it in write_request(request, version, 1, "tests"))
        with socket.create_connection(("127.0.0.1", self._port), timeout=30) as connection:
            connection.sendall(struct.pack(">i", len(frame)) + frame)
            with connection.makefile("rb") as stream:
                (size,) = struct.unpack(">i", stream.read(4))
                answer = stream.read(size)
        _, position = read_response_header(answer, response, version)
        return decode(response, version, answer, position)


@pytest.fixture
def ask_apache(apache: ApacheKafka) -> Oracle:
    return Oracle(apache.port)
