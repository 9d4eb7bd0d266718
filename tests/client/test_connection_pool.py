"""The pool keeps one connection per address and closes those that are no longer needed."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from pykbroker import AsyncBroker
from pykbroker.address import Address
from pykbroker.cli.command_line.values import address
from pykbroker.client.connection_options import ConnectionOptions, connect_tcp
from pykbroker.client.connection_pool import ConnectionPool
from pykbroker.client.errors import Disconnected


@pytest.fixture
async def broker() -> AsyncIterator[Address]:
    async with AsyncBroker() as broker:
        yield address(broker.bootstrap)


async def test_connections_to_other_addresses_are_closed(broker: Address) -> None:
    pool = ConnectionPool(ConnectionOptions())
    connection = await pool.connection_to(broker)
    await pool.retain([broker])
    assert connection.is_open
    await pool.retain([])
    assert not connection.is_open
    assert pool.connections == []


class SlowNetwork:
    """Connects when released."""

    def __init__(self) -> None:
        self.attempts = 0
        self.released = asyncio.Event()

    async def connect(self, new_protocol: object, host: str, port: int) -> asyncio.BaseTransport:
        self.attempts += 1
        await self.released.wait()
        return await connect_tcp(new_protocol, host, port)  # type: ignore[arg-type]  # passed on


async def test_requests_for_an_address_share_one_attempt(broker: Address) -> None:
    network = SlowNetwork()
    pool = ConnectionPool(ConnectionOptions(connect=network.connect))
    opening = [asyncio.create_task(pool.connection_to(broker)) for _ in range(3)]
    await asyncio.sleep(0)
    await pool.retain([])  # does not interfere with a connection being opened
    network.released.set()
    assert len(set(await asyncio.gather(*opening))) == 1
    assert network.attempts == 1
    await pool.close()


async def test_a_connection_that_opens_after_close_is_closed(broker: Address) -> None:
    network = SlowNetwork()
    pool = ConnectionPool(ConnectionOptions(connect=network.connect))
    opening = asyncio.create_task(pool.connection_to(broker))
    await asyncio.sleep(0)
    await pool.close()
    network.released.set()
    with pytest.raises(Disconnected, match="closed here"):
        await opening
    assert pool.connections == []
