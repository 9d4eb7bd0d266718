"""Version negotiation: ApiVersions with downgrade, and the version of each request."""

from collections.abc import Sequence

import pytest

from pykbroker.address import Address
from pykbroker.client.broker_connection import BrokerConnection
from pykbroker.client.connection import Encode
from pykbroker.client.connection_options import ConnectionOptions
from pykbroker.client.errors import ApiError, ClientError, InvalidRequest, InvalidResponse
from pykbroker.version import __version__
from pykbroker_protocol.compiler import decode
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.frame import read_request_header, write_response
from pykbroker_protocol.message import Message
from pykbroker_protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from pykbroker_protocol.messages.fetch import FetchRequest
from pykbroker_protocol.messages.init_producer_id import InitProducerIdRequest
from pykbroker_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from pykbroker_protocol.messages.produce import ProduceRequest


class ScriptedConnection:
    """Answers each request with the next of these responses."""

    address = Address("broker", 9092)

    def __init__(self, *responses: bytes) -> None:
        self._responses = list(responses)
        self.requests: list[bytes] = []
        self.failure: ClientError | None = None

    async def request(self, encode: Encode, *, timeout_seconds: float) -> memoryview:
        assert timeout_seconds == ConnectionOptions().timeout_seconds
        self.requests.append(b"".join(encode(1)))
        return memoryview(self._responses.pop(0))

    def fail(self, failure: ClientError) -> None:
        self.failure = failure


def encoded(message: Message, version: int) -> bytes:
    return b"".join(write_response(message, version, 1))


def offered(*ranges: tuple[int, int, int], error_code: int = 0) -> ApiVersionsResponse:
    keys = [ApiVersion(api_key=key, min_version=low, max_version=high) for key, low, high in ranges]
    return ApiVersionsResponse(error_code=error_code, api_keys=keys)


def broker_on(connection: ScriptedConnection) -> BrokerConnection:
    return BrokerConnection(connection, ConnectionOptions())  # type: ignore[arg-type]  # a double


async def broker_offering(*ranges: tuple[int, int, int]) -> BrokerConnection:
    broker = broker_on(ScriptedConnection(encoded(offered(*ranges), 4)))
    await broker.negotiate_versions()
    return broker


def versions_of(requests: Sequence[bytes]) -> list[int]:
    return [read_request_header(request).api_version for request in requests]


@pytest.mark.parametrize(
    ("message", "ranges", "version_max", "version"),
    [
        (FetchRequest, (1, 4, 18), None, 18),
        (FetchRequest, (1, 4, 99), None, 18),
        (FetchRequest, (1, 4, 16), None, 16),
        (FetchRequest, (1, 4, 18), 12, 12),
        (ProduceRequest, (0, 0, 13), None, 13),
        (InitProducerIdRequest, (22, 0, 6), None, 5),  # version 6 is unstable
    ],
)
async def test_requests_use_the_newest_version_that_both_sides_support(
    message: type[Message], ranges: tuple[int, int, int], version_max: int | None, version: int
) -> None:
    broker = await broker_offering(ranges)
    assert broker.version_of(message, version_max) == version


@pytest.mark.parametrize("ranges", [(1, 19, 20), (1, 0, 3), (0, 0, 13)])
async def test_a_request_without_common_version_is_not_sent(ranges: tuple[int, int, int]) -> None:
    broker = await broker_offering(ranges)
    with pytest.raises(ApiError) as refused:
        broker.version_of(FetchRequest)
    assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION


async def test_api_versions_is_repeated_in_version_0_for_an_old_broker() -> None:
    refusal = offered((18, 0, 2), error_code=ErrorCode.UNSUPPORTED_VERSION)
    connection = ScriptedConnection(
        encoded(refusal, 0), encoded(offered((18, 0, 2), (1, 4, 11)), 0)
    )
    broker = broker_on(connection)
    await broker.negotiate_versions()
    assert versions_of(connection.requests) == [4, 0]
    assert broker.version_of(FetchRequest) == 11


async def test_api_versions_carries_name_and_version_of_this_package() -> None:
    connection = ScriptedConnection(encoded(offered((18, 0, 4)), 4))
    await broker_on(connection).negotiate_versions()
    (request,) = connection.requests
    position = read_request_header(request).body_position + 1
    found = decode(ApiVersionsRequest, 4, request, position)
    assert (found.client_software_name, found.client_software_version) == ("pykbroker", __version__)


async def test_a_malformed_response_closes_the_connection() -> None:
    connection = ScriptedConnection(b"\0\0\0\1\0\0\xff\xff\xff\xff\xff\xff")
    broker = broker_on(connection)
    text = "broker:9092: response to API_VERSIONS version 4 is malformed"
    with pytest.raises(InvalidResponse, match=text) as raised:
        await broker.negotiate_versions()
    assert connection.failure is raised.value


async def test_text_that_is_not_utf_8_is_an_invalid_request() -> None:
    broker = await broker_offering((3, 0, 13))
    request = MetadataRequest(topics=[MetadataRequestTopic(name="\udcff")])
    with pytest.raises(InvalidRequest, match="cannot be encoded as UTF-8"):
        broker._encode(request, 12, 1)
