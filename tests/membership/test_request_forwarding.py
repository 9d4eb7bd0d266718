"""Envelopes: the request, principal and address of a client, and the response of a controller."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from pykbroker.clock import SystemClock
from pykbroker.controller_access import ControllerUnavailable, ForwardedClient, NewTopic
from pykbroker.membership.request_forwarding import EnvelopeForwarding, address_bytes
from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.frame import write_request, write_response
from pykbroker_protocol.message import Versions
from pykbroker_protocol.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from pykbroker_protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from pykbroker_protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from pykbroker_protocol.principal import ANONYMOUS, encode_principal
from tests.membership.scripted_channel import ScriptedChannel

if TYPE_CHECKING:
    from pykbroker_protocol.message import Message

CLIENT = ForwardedClient("admin", "127.0.0.1")
REQUEST = ElectLeadersRequest(
    topic_partitions=[TopicPartitions(topic=f"t{it}", partitions=[0]) for it in range(1000)]
)
RESPONSE = ElectLeadersResponse(
    throttle_time_ms=3, error_code=ErrorCode.NONE, replica_election_results=()
)


def envelope_of(response: Message, version: int) -> EnvelopeResponse:
    return EnvelopeResponse(
        response_data=b"".join(write_response(response, version, 0)), error_code=0
    )


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_an_envelope_contains_the_frame_principal_and_address_of_the_client(
    version: int,
) -> None:
    channel = ScriptedChannel(envelope_of(RESPONSE, version))
    forwarding = EnvelopeForwarding(channel, SystemClock())
    response = await forwarding.forward(
        REQUEST, ElectLeadersResponse, version=version, client=CLIENT
    )
    assert response == RESPONSE
    assert channel.requests == [
        EnvelopeRequest(
            request_data=b"".join(write_request(REQUEST, version, 0, "admin")),
            request_principal=encode_principal(ANONYMOUS),
            client_host_address=bytes([127, 0, 0, 1]),
        )
    ]


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("10.1.2.3", bytes([10, 1, 2, 3])),
        ("::1", bytes(15) + b"\1"),
        ("fe80::1%eth0", b"\xfe\x80" + bytes(13) + b"\1"),
        ("simulated-host", bytes(4)),
    ],
)
def test_addresses_have_four_or_sixteen_bytes(host: str, address: bytes) -> None:
    assert address_bytes(host) == address


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (EnvelopeResponse(error_code=ErrorCode.UNSUPPORTED_VERSION), ErrorCode.UNSUPPORTED_VERSION),
        (
            EnvelopeResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ),
        (EnvelopeResponse(error_code=0), ErrorCode.UNKNOWN_SERVER_ERROR),
        (EnvelopeResponse(error_code=0, response_data=b"\0"), ErrorCode.UNKNOWN_SERVER_ERROR),
        (EnvelopeResponse(error_code=0, response_data=bytes(7)), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
async def test_errors_of_the_envelope_and_malformed_responses_are_error_codes(
    outcome: EnvelopeResponse, expected: ErrorCode
) -> None:
    forwarding = EnvelopeForwarding(ScriptedChannel(outcome), SystemClock())
    assert (
        await forwarding.forward(REQUEST, ElectLeadersResponse, version=2, client=CLIENT)
        is expected
    )


async def test_an_unavailable_controller_is_an_exception() -> None:
    forwarding = EnvelopeForwarding(ScriptedChannel(ControllerUnavailable("none")), SystemClock())
    with pytest.raises(ControllerUnavailable):
        await forwarding.forward(REQUEST, ElectLeadersResponse, version=2, client=CLIENT)


# --- automatic creation of topics


def created(*results: tuple[str, ErrorCode]) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(name=name, error_code=code, error_message=None)
            for name, code in results
        ]
    )


async def until_idle() -> None:
    """Runs tasks until the remaining ones wait."""
    for _ in range(50):
        await asyncio.sleep(0)


async def test_topics_are_created_as_the_client_in_a_version_of_the_controller() -> None:
    channel = ScriptedChannel(envelope_of(created(("a", ErrorCode.NONE)), 5))
    channel.versions[ApiKey.CREATE_TOPICS] = Versions(2, 5)
    forwarding = EnvelopeForwarding(channel, SystemClock())
    forwarding.begin_topic_creation([NewTopic(name="a", configuration={"b": "c"})], CLIENT)
    await until_idle()
    (envelope,) = channel.requests
    assert bytes(envelope.request_data[:4]) == bytes([0, ApiKey.CREATE_TOPICS, 0, 5])
    await forwarding.close()


async def test_internal_topics_are_created_as_this_broker() -> None:
    channel = ScriptedChannel(created(("a", ErrorCode.NONE)))
    forwarding = EnvelopeForwarding(channel, SystemClock())
    topic = NewTopic(name="a", partitions=3, replication_factor=2, configuration={"b": "c"})
    forwarding.begin_topic_creation([topic], None)
    await until_idle()
    (request,) = channel.requests
    assert isinstance(request, CreateTopicsRequest)
    (row,) = request.topics
    assert (row.name, row.num_partitions, row.replication_factor) == ("a", 3, 2)
    assert [(it.name, it.value) for it in row.configs] == [("b", "c")]


async def test_a_topic_is_requested_again_only_after_its_request_has_ended() -> None:
    channel = ScriptedChannel()
    forwarding = EnvelopeForwarding(channel, SystemClock())
    forwarding.begin_topic_creation([NewTopic(name="a")], None)
    forwarding.begin_topic_creation([NewTopic(name="a")], CLIENT)
    forwarding.begin_topic_creation([NewTopic(name="a"), NewTopic(name="b")], None)
    await until_idle()
    assert [[it.name for it in request.topics] for request in channel.requests] == [["a"], ["b"]]
    await forwarding.close()
    channel.outcomes = [created(("a", ErrorCode.NONE)) for _ in range(2)]
    for count in (3, 4):
        forwarding.begin_topic_creation([NewTopic(name="a")], None)
        await until_idle()
        assert len(channel.requests) == count
    await forwarding.close()


@pytest.mark.parametrize("client", [None, CLIENT])
@pytest.mark.parametrize(
    ("outcomes", "reason"),
    [
        ([created(("a", ErrorCode.INVALID_REPLICATION_FACTOR))], "INVALID_REPLICATION_FACTOR"),
        ([created()], "does not contain the topic"),
        ([ControllerUnavailable("no controller at 10.0.0.1")], "no controller at 10.0.0.1"),
    ],
)
async def test_the_reason_of_a_failed_creation_is_logged_once(
    client: ForwardedClient | None,
    outcomes: list[Message | Exception],
    reason: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    channel = ScriptedChannel()
    forwarding = EnvelopeForwarding(channel, SystemClock())
    for _ in range(2):
        channel.outcomes = [
            envelope_of(it, 7) if client and isinstance(it, CreateTopicsResponse) else it
            for it in outcomes
        ]
        forwarding.begin_topic_creation([NewTopic(name="a")], client)
        await until_idle()
    (line,) = caplog.messages
    assert line.startswith("a: topic cannot be created automatically (")
    assert reason in line


async def test_an_existing_topic_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    channel = ScriptedChannel(created(("a", ErrorCode.TOPIC_ALREADY_EXISTS)))
    forwarding = EnvelopeForwarding(channel, SystemClock())
    forwarding.begin_topic_creation([NewTopic(name="a")], None)
    await until_idle()
    assert not caplog.messages
