"""The channel to the active controller, under controllers of the model."""

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence

import pytest

from pykbroker.address import Address
from pykbroker.client.connection_options import ConnectionOptions
from pykbroker.controller_access import ControllerUnavailable
from pykbroker.membership import controller_channel
from pykbroker.membership.controller_channel import QuorumChannel, is_not_controller
from pykbroker.membership.controller_quorum import ControllerQuorum
from pykbroker.membership.quorum_fetch import leader_in, probe_request
from pykbroker.membership.quorum_view import QuorumView, parse_address
from pykbroker.testing.simulation.controller_model import RunningController, StartController
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.message import Message
from pykbroker_protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from pykbroker_protocol.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsResponse,
)
from pykbroker_protocol.messages.fetch import FetchResponse

REQUEST = AllocateProducerIdsRequest(broker_id=9, broker_epoch=9)
DEADLINE_SECONDS = 10.0


class Channels:
    def __init__(self) -> None:
        self._opened: list[ControllerQuorum | QuorumChannel] = []

    def open(
        self, addresses: Sequence[str], *, cluster_id: str | None = None
    ) -> tuple[ControllerQuorum, QuorumChannel]:
        quorum = ControllerQuorum(
            QuorumView(seeds=tuple(map(parse_address, addresses))),
            ConnectionOptions(timeout_seconds=1.0),
            cluster_id=cluster_id,
        )
        channel = QuorumChannel(quorum, timeout_seconds=DEADLINE_SECONDS)
        self._opened += [channel, quorum]
        return quorum, channel

    async def close(self) -> None:
        for opened in self._opened:
            await opened.close()


@pytest.fixture
async def channels() -> AsyncIterator[Channels]:
    channels = Channels()
    yield channels
    await channels.close()


@pytest.fixture
async def controllers(controller_model: StartController) -> RunningController:
    return await controller_model(controller_ids=(3000, 3001))


async def sent(
    channel: QuorumChannel, *, timeout_seconds: float | None = None
) -> AllocateProducerIdsResponse:
    return await channel.request(
        REQUEST, AllocateProducerIdsResponse, timeout_seconds=timeout_seconds
    )


async def test_any_controller_leads_to_the_active_one(
    controllers: RunningController, channels: Channels
) -> None:
    quorum, channel = channels.open(controllers.addresses[1:])
    response = await sent(channel)
    assert response.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED  # of the active controller
    assert quorum.view.leader_id == 3000


async def test_an_address_that_does_not_answer_does_not_delay_discovery(
    controllers: RunningController, channels: Channels
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts, but does not read
        port = silent.getsockname()[1]
        _, channel = channels.open([f"127.0.0.1:{port}", "127.0.0.1:1", *controllers.addresses])
        async with asyncio.timeout(0.9):  # the timeout of a connection is 1 s
            await sent(channel)


async def test_a_request_follows_the_active_controller(
    controllers: RunningController, channels: Channels
) -> None:
    quorum, channel = channels.open(controllers.addresses)
    await sent(channel)
    controllers.model.elect()
    await sent(channel)
    assert quorum.view.leader_id == 3001
    await controllers.servers[1].stop()
    controllers.model.elect()
    await sent(channel)
    assert quorum.view.leader_id == 3000


async def test_a_request_to_a_paused_controller_is_sent_to_its_successor(
    controllers: RunningController, channels: Channels
) -> None:
    """Another connection learns of the successor first; here it is the test."""
    quorum, channel = channels.open(controllers.addresses)
    await sent(channel)

    async def hang(_: memoryview) -> list[bytes]:
        await asyncio.Event().wait()
        return []

    controllers.servers[0].requests.serve = hang  # type: ignore[method-assign,assignment]
    waiting = asyncio.ensure_future(sent(channel))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    controllers.model.elect()
    host, port = controllers.model.endpoints[3001]
    quorum.observed(3001, controllers.model.epoch, [(3001, Address(host, port))])
    async with asyncio.timeout(0.9):
        await waiting


async def test_a_silent_connection_is_replaced(
    controllers: RunningController, channels: Channels, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first connection is like one whose packets a network drops."""
    monkeypatch.setattr(controller_channel, "SILENCE_SECONDS_MAX", 0.1)
    _, channel = channels.open(controllers.addresses)
    await sent(channel)
    requests = controllers.servers[0].requests
    serve = requests.serve

    async def hang(_: memoryview) -> list[bytes]:
        requests.serve = serve  # type: ignore[method-assign]
        await asyncio.Event().wait()
        return []

    requests.serve = hang  # type: ignore[method-assign,assignment]
    with pytest.raises(ControllerUnavailable):
        await sent(channel, timeout_seconds=0.2)
    await sent(channel, timeout_seconds=2)


async def test_without_a_controller_the_error_names_addresses_and_reasons(
    channels: Channels,
) -> None:
    _, channel = channels.open(["127.0.0.1:1", "127.0.0.1:2"])
    with pytest.raises(ControllerUnavailable) as raised:
        await sent(channel, timeout_seconds=0.3)
    text = str(raised.value)
    assert "127.0.0.1:1 (" in text
    assert "127.0.0.1:2 (" in text
    assert "connection refused" in text
    assert raised.value.code is ErrorCode.REQUEST_TIMED_OUT


async def test_a_request_that_waits_for_a_controller_can_be_cancelled(channels: Channels) -> None:
    _, channel = channels.open(["127.0.0.1:1"])
    waiting = asyncio.ensure_future(sent(channel))
    await asyncio.sleep(0.05)
    waiting.cancel()
    async with asyncio.timeout(0.5):
        with pytest.raises(asyncio.CancelledError):
            await waiting


async def test_controllers_of_another_cluster_are_refused(
    controllers: RunningController, channels: Channels
) -> None:
    _, channel = channels.open(controllers.addresses, cluster_id="another")
    with pytest.raises(ControllerUnavailable, match="does not belong to cluster another"):
        await sent(channel)


async def test_a_closed_channel_refuses_requests(
    controllers: RunningController, channels: Channels
) -> None:
    _, channel = channels.open(controllers.addresses)
    await channel.close()
    with pytest.raises(ControllerUnavailable, match="closed"):
        await sent(channel)


async def test_a_probe_names_the_leader(controllers: RunningController, channels: Channels) -> None:
    _, channel = channels.open(controllers.addresses)
    response = await channel.request(probe_request(None), FetchResponse)
    named = leader_in(response)
    host, port = controllers.model.endpoints[3000]
    assert named == (3000, 1, ((3000, Address(host, port)),))


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (AllocateProducerIdsResponse(error_code=41, producer_id_start=0, producer_id_len=0), True),
        (AllocateProducerIdsResponse(error_code=42, producer_id_start=0, producer_id_len=0), False),
        (CreateTopicsResponse(topics=[CreatableTopicResult(name="a", error_code=41)]), True),
        (CreateTopicsResponse(topics=[CreatableTopicResult(name="a", error_code=36)]), False),
        (CreateTopicsResponse(topics=[]), False),
    ],
)
def test_not_controller_is_found_in_a_response(response: Message, *, expected: bool) -> None:
    assert is_not_controller(response) is expected
