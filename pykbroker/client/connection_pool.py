"""One open connection per broker address, opened when first used."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pykbroker.client.broker_connection import BrokerConnection
from pykbroker.client.errors import Disconnected

if TYPE_CHECKING:
    from collections.abc import Collection

    from pykbroker.address import Address
    from pykbroker.client.connection_options import ConnectionOptions


class ConnectionPool:
    """Bounded by the addresses in use: `retain` closes connections to all others."""

    def __init__(self, options: ConnectionOptions) -> None:
        self._options = options
        self._connections: dict[Address, BrokerConnection] = {}
        self._opening: dict[Address, asyncio.Lock] = {}
        self._is_closed = False

    async def connection_to(self, address: Address) -> BrokerConnection:
        """Returns the open connection, or opens one; requests for one address share the attempt."""
        async with self._opening.setdefault(address, asyncio.Lock()):
            connection = self._connections.get(address)
            if connection is None or not connection.is_open:
                connection = await BrokerConnection.open(address, self._options)
                if self._is_closed:
                    await connection.close()
                    raise Disconnected(f"{address}: the connection was closed here")
                self._connections[address] = connection
            return connection

    @property
    def connections(self) -> list[BrokerConnection]:
        return list(self._connections.values())

    async def retain(self, addresses: Collection[Address]) -> None:
        """Closes connections to other addresses, except those that are being opened."""
        for address in self._opening.keys() - set(addresses):
            if not self._opening[address].locked():
                del self._opening[address]
                connection = self._connections.pop(address, None)
                if connection is not None:
                    await connection.close()

    def discard(self, address: Address) -> None:
        """Closes a connection without waiting for bytes that are not sent yet."""
        connection = self._connections.pop(address, None)
        if connection is not None:
            connection.fail(Disconnected(f"{address}: the connection was closed here"))

    async def close(self) -> None:
        self._is_closed = True
        connections = list(self._connections.values())
        self._connections = {}
        for connection in connections:
            await connection.close()
