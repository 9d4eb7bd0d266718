"""Messages to one broker, each in the newest version that both sides support."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self, TypeVar

from pykbroker.client.connection import Connection
from pykbroker.client.connection_options import ConnectionOptions
from pykbroker.client.errors import (
    ApiError,
    ClientError,
    InvalidRequest,
    InvalidResponse,
    raise_if_error,
)
from pykbroker.version import __version__
from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.compiler import MalformedMessage, UnsupportedField, decode
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.frame import read_response_header, write_request
from pykbroker_protocol.message import Message, Versions
from pykbroker_protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pykbroker.address import Address
    from pykbroker_protocol.compiler import Buffer

Response = TypeVar("Response", bound=Message)

SOFTWARE_NAME: Final = "pykbroker"
RESPONSE_HEADER_BYTES: Final = 4
ERROR_CODE_BYTES: Final = 2
SHOWN_CHARACTERS_MAX: Final = 40


class BrokerConnection:
    """A connection and the API versions that its broker offers."""

    def __init__(self, connection: Connection, options: ConnectionOptions) -> None:
        self.address = connection.address
        self.offered = ApiVersionsResponse(error_code=0, api_keys=())
        self._connection = connection
        self._options = options
        self._versions: dict[int, Versions] = {}

    @classmethod
    async def open(cls, address: Address, options: ConnectionOptions | None = None) -> Self:
        """Connects and negotiates versions."""
        options = options or ConnectionOptions()
        broker = cls(await Connection.open(address, options), options)
        try:
            await broker.negotiate_versions()
        except BaseException:
            await broker.close()
            raise
        return broker

    @property
    def is_open(self) -> bool:
        return self._connection.is_open

    async def close(self) -> None:
        await self._connection.close()

    def fail(self, failure: ClientError) -> None:
        """Closes the connection at once; requests in flight and later ones raise this error."""
        self._connection.fail(failure)

    def offers(self, api: ApiKey) -> bool:
        return api in self._versions

    @property
    def versions(self) -> Mapping[int, Versions]:
        """The versions that the broker offers, by API key."""
        return self._versions

    def version_of(self, message: type[Message], version_max: int | None = None) -> int:
        """Returns the newest version of a message that both sides support."""
        api = ApiKey(message.api)
        theirs = self._versions.get(api)
        if theirs is None:
            text = f"{self.address} does not offer {api.name}."
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, text)
        ours = message.versions
        newest = ours.last - message.latest_unstable
        version = min(newest, theirs.last, newest if version_max is None else version_max)
        if version < max(ours.first, theirs.first):
            text = f"{self.address} offers {api.name} {theirs}, this program supports {ours}."
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, text)
        return version

    async def request(
        self,
        request: Message,
        response_type: type[Response],
        *,
        version_max: int | None = None,
        timeout_seconds: float | None = None,
    ) -> Response:
        version = self.version_of(type(request), version_max)
        frame = await self._exchange(request, version, timeout_seconds)
        return self._decode(frame, response_type, version)

    async def send(self, request: Message, *, version_max: int | None = None) -> None:
        """Sends a request that has no response (acks=0)."""
        version = self.version_of(type(request), version_max)
        await self._connection.send(
            lambda correlation_id: self._encode(request, version, correlation_id),
            timeout_seconds=self._options.timeout_seconds,
        )

    async def negotiate_versions(self) -> None:
        """Sends ApiVersions; a broker that is too old for its version answers in version 0."""
        request = ApiVersionsRequest(
            client_software_name=SOFTWARE_NAME, client_software_version=__version__
        )
        version = ApiVersionsRequest.versions.last
        frame = await self._exchange(request, version)
        if is_unsupported_version(frame):
            version = 0
            frame = await self._exchange(ApiVersionsRequest(), version)
        offered = self._decode(frame, ApiVersionsResponse, version)
        raise_if_error(offered.error_code)
        self.offered = offered
        self._versions = {
            api.api_key: Versions(api.min_version, api.max_version) for api in offered.api_keys
        }

    async def _exchange(
        self, request: Message, version: int, timeout_seconds: float | None = None
    ) -> memoryview:
        if timeout_seconds is None:
            timeout_seconds = self._options.timeout_seconds
        return await self._connection.request(
            lambda correlation_id: self._encode(request, version, correlation_id),
            timeout_seconds=timeout_seconds,
        )

    def _encode(self, request: Message, version: int, correlation_id: int) -> Sequence[Buffer]:
        try:
            return write_request(request, version, correlation_id, self._options.client_id)
        except UnsupportedField as reason:
            text = f"{self.address} is too old for this request: {reason}"
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, text) from reason
        except UnicodeEncodeError as reason:
            text = f"{shortened(reason.object)} cannot be encoded as UTF-8"
            raise InvalidRequest(text) from reason

    def _decode(self, frame: memoryview, response_type: type[Response], version: int) -> Response:
        try:
            _, position = read_response_header(frame, response_type, version)
            return decode(response_type, version, frame, position)
        except MalformedMessage as reason:
            api = ApiKey(response_type.api).name
            failure = InvalidResponse(
                f"{self.address}: response to {api} version {version} is malformed: {reason}"
            )
            self._connection.fail(failure)
            raise failure from reason


def is_unsupported_version(frame: memoryview) -> bool:
    code = frame[RESPONSE_HEADER_BYTES : RESPONSE_HEADER_BYTES + ERROR_CODE_BYTES]
    return int.from_bytes(code, "big", signed=True) == ErrorCode.UNSUPPORTED_VERSION


def shortened(text: str) -> str:
    is_short = len(text) <= SHOWN_CHARACTERS_MAX
    return repr(text if is_short else f"{text[:SHOWN_CHARACTERS_MAX]}…")
