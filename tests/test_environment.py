"""A broker depends on its surroundings through its environment alone."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from pykbroker.broker import Broker
from pykbroker.clock import SystemClock
from pykbroker.environment import Environment, SystemNetwork
from pykbroker.settings import load_settings
from pykbroker_storage.filesystem import VolatileDisk

if TYPE_CHECKING:
    from pathlib import Path

    from pykbroker.apis import Api, Handle
    from pykbroker.apis.node import Call
    from pykbroker.settings import Settings
    from pykbroker.transport.limits import ConnectionLimits
    from pykbroker.transport.listener import Listener
    from pykbroker_protocol.message import Message

API_VERSIONS_V0 = b"\x00\x12\x00\x00\x00\x00\x00\x07\xff\xff"


class CountedNetwork(SystemNetwork):
    __slots__ = ("listeners",)

    def __init__(self) -> None:
        self.listeners: list[str] = []

    async def listen(self, name: str, host: str, port: int, limits: ConnectionLimits) -> Listener:
        self.listeners.append(name)
        return await super().listen(name, host, port, limits)


class Numbered:
    """Randomness that counts."""

    def __init__(self) -> None:
        self.drawn = 0

    def uuid_bytes(self) -> bytes:
        self.drawn += 1
        return self.drawn.to_bytes(16, "big")

    def below(self, bound: int) -> int:
        del bound
        return 0


class LateClock(SystemClock):
    def now_ms(self) -> int:
        return super().now_ms() + 86_400_000


class Titles:
    """Records the API of each request."""

    def __init__(self) -> None:
        self.titles: list[str] = []

    def wrap(self, api: Api, handle: Handle) -> Handle:
        def noting(request: Message, call: Call) -> Any:
            self.titles.append(api.title)
            return handle(request, call)

        return noting

    def admits_fast_path(self, api_key: int) -> bool:
        raise NotImplementedError

    def note_repeated(self, api: Api, call: Call, response: Message) -> None:
        raise NotImplementedError


class Connected(asyncio.Protocol):
    def __init__(self) -> None:
        self.received = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        if not self.received.done():
            self.received.set_result(data)


def settings_in(directory: Path) -> Settings:
    return load_settings(
        {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(directory / "data")}
    )


async def test_every_part_uses_the_given_environment(tmp_path: Path) -> None:
    network, randomness, requests = CountedNetwork(), Numbered(), Titles()
    filesystem, clock = VolatileDisk(), LateClock()
    environment = Environment(
        clock=clock,
        randomness=randomness,
        filesystem=filesystem,
        network=network,
        request_observer=requests,
    )
    broker = await Broker.start(settings_in(tmp_path), environment)
    try:
        assert network.listeners == ["PLAINTEXT"]
        assert randomness.drawn > 0
        assert broker.directory.filesystem is filesystem
        assert broker.partitions.clock is broker.node.clock is clock
        protocol: Connected | None = None

        def new_protocol() -> Connected:
            nonlocal protocol
            protocol = Connected()
            return protocol

        transport = await network.connect(new_protocol, "127.0.0.1", broker.bound_port)
        assert isinstance(transport, asyncio.Transport)
        transport.write(len(API_VERSIONS_V0).to_bytes(4, "big") + API_VERSIONS_V0)
        assert protocol is not None
        await protocol.received
        transport.close()
        assert requests.titles == ["ApiVersions"]
    finally:
        await broker.stop()


async def test_a_crash_writes_neither_checkpoints_nor_the_clean_shutdown_file(
    tmp_path: Path,
) -> None:
    broker = await Broker.start(settings_in(tmp_path))
    await broker.crash()
    assert not (tmp_path / "data" / ".kafka_cleanshutdown").exists()
    broker = await Broker.start(settings_in(tmp_path))
    assert not broker.directory.was_clean
    await broker.stop()
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def test_test_kits_override_nothing_of_the_broker() -> None:
    import pykbroker.testing.async_broker
    import pykbroker.testing.simulation  # noqa: F401

    assert Broker.__subclasses__() == []
