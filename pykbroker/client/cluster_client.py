"""Client of a cluster: requests metadata and sends requests to any of the brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self, TypeVar

from pykbroker.client.connection_options import ConnectionOptions
from pykbroker.client.connection_pool import ConnectionPool
from pykbroker.client.errors import ApiError, ConnectionFailed, InvalidResponse, error_of, only
from pykbroker.client.metadata_cache import MetadataCache
from pykbroker.client.retries import Attempts, Recovery, recovery_from
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.message import Message
from pykbroker_protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pykbroker.address import Address
    from pykbroker.client.broker_connection import BrokerConnection
    from pykbroker_protocol.messages.metadata import MetadataResponseTopic

Response = TypeVar("Response", bound=Message)

TOPIC_TIMEOUT_SECONDS: Final = 3.0
"""A topic that was just created may be unknown to some brokers for this long."""


class ClusterClient:
    """Caches the metadata of a cluster and one connection to each broker that was used."""

    def __init__(
        self, bootstrap_addresses: Sequence[Address], options: ConnectionOptions | None = None
    ) -> None:
        assert bootstrap_addresses
        self.options = options or ConnectionOptions()
        self.bootstrap_addresses = bootstrap_addresses
        self._pool = ConnectionPool(self.options)
        self._cache = MetadataCache()
        self._bootstrap: BrokerConnection | None = None

    @classmethod
    async def connect(
        cls, bootstrap_addresses: Sequence[Address], options: ConnectionOptions | None = None
    ) -> Self:
        """Connects to the first of these brokers that is reachable."""
        client = cls(bootstrap_addresses, options)
        try:
            await client.any_broker()
        except BaseException:
            await client.close()
            raise
        return client

    @property
    def timeout_ms(self) -> int:
        """The request timeout, for requests with a timeout field."""
        return round(self.options.timeout_seconds * 1000)

    def attempts(self, seconds: float) -> Attempts:
        return Attempts(self.options, seconds)

    async def any_broker(self) -> BrokerConnection:
        """Returns a connection to a known or bootstrap broker, the one used before if possible."""
        if self._bootstrap is not None and self._bootstrap.is_open:
            return self._bootstrap
        failures: list[ConnectionFailed | InvalidResponse] = []
        for address in dict.fromkeys((*self._cache.brokers.values(), *self.bootstrap_addresses)):
            try:
                self._bootstrap = await self._pool.connection_to(address)
            except (ConnectionFailed, InvalidResponse) as failure:
                failures.append(failure)
            else:
                return self._bootstrap
        if len(failures) == 1:
            raise failures[0]
        raise ConnectionFailed("; ".join(map(str, failures)))

    async def request(
        self,
        request: Message,
        response_type: type[Response],
        *,
        node_id: int | None = None,
        version_max: int | None = None,
        timeout_seconds: float | None = None,
    ) -> Response:
        """Sends a request to one broker, or to any if `node_id` is None."""
        broker = await self.broker(node_id)
        return await broker.request(
            request, response_type, version_max=version_max, timeout_seconds=timeout_seconds
        )

    async def send(self, request: Message, *, node_id: int, version_max: int | None = None) -> None:
        """Sends a request that has no response (acks=0)."""
        await (await self.broker(node_id)).send(request, version_max=version_max)

    async def flush(self) -> None:
        """Returns when all brokers have read the requests that have no response.

        A broker answers requests in order, so a response to ApiVersions proves it.
        """
        for connection in self._pool.connections:
            await connection.negotiate_versions()

    async def broker(self, node_id: int | None = None) -> BrokerConnection:
        """Returns a connection to one broker, or to any if `node_id` is None."""
        if node_id is None:
            return await self.any_broker()
        address = self._cache.brokers.get(node_id)
        if address is None:
            await self.metadata()
            address = self._cache.brokers.get(node_id)
        if address is None:
            raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, f"There is no broker {node_id}.")
        return await self._pool.connection_to(address)

    async def metadata(
        self, topics: Sequence[str] | None = (), *, may_create: bool = False
    ) -> MetadataResponse:
        """Requests brokers and these topics, or all topics for None, and caches the response."""
        requested = None if topics is None else [MetadataRequestTopic(name=it) for it in topics]
        response = await self.request(
            MetadataRequest(topics=requested, allow_auto_topic_creation=may_create),
            MetadataResponse,
        )
        self._cache.update(response, is_complete=topics is None)
        await self._pool.retain((*self._cache.brokers.values(), *self.bootstrap_addresses))
        return response

    async def topic(self, name: str, *, may_create: bool = False) -> MetadataResponseTopic:
        """Requests a topic until its metadata is complete; returns its partitions in order.

        An unknown topic is retried only if brokers may create it.
        """
        attempts = self.attempts(TOPIC_TIMEOUT_SECONDS)
        while True:
            try:
                response = await self.metadata([name], may_create=may_create)
            except ConnectionFailed:
                if not await attempts.pause():
                    raise
                continue
            error = error_of(only(response.topics, "topics").error_code)
            if error is ErrorCode.NONE:
                topic = self._cache.topic(name)
                if topic is None:
                    raise InvalidResponse(f"the response to Metadata lacks topic {name}")
                return topic
            is_missing = error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not may_create
            is_final = is_missing or recovery_from(error) is Recovery.NONE
            if is_final or not await attempts.pause():
                raise ApiError(error)

    @property
    def brokers(self) -> Mapping[int, Address]:
        """Node ids and addresses of the last metadata."""
        return self._cache.brokers

    async def close(self) -> None:
        await self._pool.close()


def no_such_partition(partition: int, count: int) -> ApiError:
    text = f"Partition {partition} does not exist, the topic has {count} partition(s)."
    return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
