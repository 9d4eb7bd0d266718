"""A cluster as a client sees it: any message to any broker, in a version that both sides speak."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Self, TypeVar

from pykbroker.address import Address
from pykbroker.cli.command_line.values import shown
from pykbroker.cli.failure import CannotBegin, CommandFailed, Refused
from pykbroker.cli.refusals import raise_if_refused
from pykbroker.transport.client import Connection, ConnectionFailed
from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.compiler import MalformedMessage, UnsupportedField, decode
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.frame import read_response_header, write_request
from pykbroker_protocol.message import Message, Versions
from pykbroker_protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pykbroker_protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

Answer = TypeVar("Answer", bound=Message)

CLIENT_ID = "pykbroker-cli"
SOFTWARE_NAME = "pykbroker"
SOFTWARE_VERSION = "0.1"
RESPONSE_HEADER_BYTES = 4
ERROR_CODE_BYTES = 2


class Disconnected(CommandFailed):
    """A broker went away, or did not answer in time; trying another may help."""


class Client:
    """Keeps one connection to each broker it has had to ask."""

    def __init__(self, bootstrap: Broker, timeout_s: float) -> None:
        self._bootstrap = bootstrap
        self._timeout_s = timeout_s
        self._addresses: dict[int, Address] = {}
        self._brokers: dict[int, Broker] = {}
        self._opening = asyncio.Lock()

    @classmethod
    async def connect(cls, addresses: Sequence[Address], timeout_s: float) -> Self:
        """Reach the first of these brokers that answers."""
        silent = []
        for address in addresses:
            try:
                return cls(await Broker.connect(address, timeout_s), timeout_s)
            except Disconnected as failure:
                silent.append(str(failure))
        raise CannotBegin("; ".join(silent))

    @property
    def timeout_ms(self) -> int:
        """How long a broker may work on what it is asked."""
        return round(self._timeout_s * 1000)

    @property
    def bootstrap(self) -> Broker:
        return self._bootstrap

    async def ask(
        self,
        request: Message,
        answer: type[Answer],
        *,
        node_id: int | None = None,
        version_max: int | None = None,
        timeout_s: float | None = None,
    ) -> Answer:
        """Send a request to one broker, or to whichever we began with."""
        broker = self._bootstrap if node_id is None else await self._broker(node_id)
        return await broker.ask(request, answer, version_max=version_max, timeout_s=timeout_s)

    async def tell(self, request: Message, *, node_id: int, version_max: int | None = None) -> None:
        """Send a request that is not answered."""
        await (await self._broker(node_id)).tell(request, version_max=version_max)

    async def settle(self) -> None:
        """Return when every broker has read all that it was told: answers keep their order."""
        for broker in self._brokers.values():
            await broker.greet()

    async def metadata(
        self, topics: Sequence[str] | None = (), *, may_create: bool = False
    ) -> MetadataResponse:
        """The brokers, and these topics or all of them; learns where every broker is."""
        wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        if not self._bootstrap.is_open and self._addresses:
            self._bootstrap = await self._any_broker()
        metadata = await self.ask(
            MetadataRequest(topics=wanted, allow_auto_topic_creation=may_create), MetadataResponse
        )
        self._addresses = {
            broker.node_id: Address(broker.host, broker.port) for broker in metadata.brokers
        }
        return metadata

    async def close(self) -> None:
        for broker in (self._bootstrap, *self._brokers.values()):
            await broker.close()

    async def _broker(self, node_id: int) -> Broker:
        async with self._opening:
            broker = self._brokers.get(node_id)
            if broker is not None and broker.is_open:
                return broker
            address = self._addresses.get(node_id)
            if address is None:
                await self.metadata()
                address = self._addresses.get(node_id)
            if address is None:
                raise Refused(ErrorCode.BROKER_NOT_AVAILABLE, f"There is no broker {node_id}.")
            self._brokers[node_id] = await Broker.connect(address, self._timeout_s)
            return self._brokers[node_id]

    async def _any_broker(self) -> Broker:
        for address in self._addresses.values():
            with suppress(Disconnected):
                return await Broker.connect(address, self._timeout_s)
        return await Broker.connect(self._bootstrap.address, self._timeout_s)


class Broker:
    """One connection, and what the broker behind it says it speaks."""

    def __init__(self, address: Address, connection: Connection) -> None:
        self.address = address
        self.offers = ApiVersionsResponse(error_code=0, api_keys=())
        self._connection = connection
        self._versions: dict[int, Versions] = {}
        self._correlation_id = 0

    @classmethod
    async def connect(cls, address: Address, timeout_s: float) -> Self:
        try:
            connection = await Connection.open(address.host, address.port, timeout_s=timeout_s)
        except ConnectionFailed as failure:
            raise Disconnected(unreachable(address, failure)) from failure
        broker = cls(address, connection)
        try:
            await broker.greet()
        except BaseException:
            await broker.close()
            raise
        return broker

    @property
    def is_open(self) -> bool:
        return self._connection.is_open

    async def close(self) -> None:
        await self._connection.close()

    def offers_api(self, api: ApiKey) -> bool:
        return api in self._versions

    def version_of(self, message: type[Message], version_max: int | None = None) -> int:
        """The newest version of a message that both sides speak."""
        api = ApiKey(message.api)
        theirs = self._versions.get(api)
        if theirs is None:
            raise Refused(
                ErrorCode.UNSUPPORTED_VERSION, f"{self.address} does not offer {api.name}."
            )
        ours = message.versions
        newest = ours.last - message.latest_unstable
        version = min(newest, theirs.last, newest if version_max is None else version_max)
        if version < max(ours.first, theirs.first):
            text = f"{self.address} speaks {api.name} {theirs}, this program {ours}."
            raise Refused(ErrorCode.UNSUPPORTED_VERSION, text)
        return version

    async def ask(
        self,
        request: Message,
        answer: type[Answer],
        *,
        version_max: int | None = None,
        timeout_s: float | None = None,
    ) -> Answer:
        version = self.version_of(type(request), version_max)
        frame = await self._exchange(request, version, timeout_s)
        return self._read(frame, answer, version)

    async def tell(self, request: Message, *, version_max: int | None = None) -> None:
        version = self.version_of(type(request), version_max)
        try:
            await self._connection.send(self._write(request, version))
        except ConnectionFailed as failure:
            raise Disconnected(str(failure)) from failure

    async def greet(self) -> None:
        """Learn what the broker speaks; one that is too old for the question says so in v0."""
        request = ApiVersionsRequest(
            client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION
        )
        version = ApiVersionsRequest.versions.last
        frame = await self._exchange(request, version)
        if self._is_unsupported(frame):
            version = 0
            frame = await self._exchange(ApiVersionsRequest(), version)
        self.offers = self._read(frame, ApiVersionsResponse, version)
        raise_if_refused(self.offers.error_code)
        self._versions = {
            api.api_key: Versions(api.min_version, api.max_version) for api in self.offers.api_keys
        }

    @staticmethod
    def _is_unsupported(frame: memoryview) -> bool:
        code = frame[RESPONSE_HEADER_BYTES : RESPONSE_HEADER_BYTES + ERROR_CODE_BYTES]
        return int.from_bytes(code, "big", signed=True) == ErrorCode.UNSUPPORTED_VERSION

    def _write(self, request: Message, version: int) -> Sequence[bytes | bytearray | memoryview]:
        self._correlation_id += 1
        try:
            return write_request(request, version, self._correlation_id, CLIENT_ID)
        except UnsupportedField as reason:
            text = f"{self.address} is too old for this: {reason}"
            raise Refused(ErrorCode.UNSUPPORTED_VERSION, text) from reason
        except UnicodeEncodeError as reason:
            raise CannotBegin(f"{shown(reason.object)} is no text") from reason

    async def _exchange(
        self, request: Message, version: int, timeout_s: float | None = None
    ) -> memoryview:
        frame = self._write(request, version)
        try:
            return await self._connection.request(frame, timeout_s=timeout_s)
        except ConnectionFailed as failure:
            raise Disconnected(str(failure)) from failure

    def _read(self, frame: memoryview, answer: type[Answer], version: int) -> Answer:
        try:
            _, position = read_response_header(frame, answer, version)
            return decode(answer, version, frame, position)
        except MalformedMessage as reason:
            text = f"{self.address} answered what cannot be read: {reason}"
            raise CommandFailed(text) from reason


def unreachable(address: Address, failure: ConnectionFailed) -> str:
    if isinstance(failure.__cause__, ConnectionRefusedError):
        return f"nobody listens at {address}"
    return str(failure)
