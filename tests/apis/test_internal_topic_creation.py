"""A failed creation of an internal topic is logged once and retried."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pykbroker.apis import find_coordinator
from pykbroker.apis.node import Call
from pykbroker.apis.peer import Peer
from pykbroker.broker import Broker
from pykbroker.environment import Environment
from pykbroker.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from pykbroker.settings import load_settings
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.find_coordinator import FindCoordinatorRequest
from pykbroker_storage.filesystem import VolatileDisk

if TYPE_CHECKING:
    from pathlib import Path

TOO_MANY = "2000000"


@pytest.mark.parametrize(
    ("key_type", "topic", "property_name"),
    [
        (0, CONSUMER_OFFSETS, "offsets.topic.num.partitions"),
        (1, TRANSACTION_STATE, "transaction.state.log.num.partitions"),
    ],
)
async def test_the_reason_is_logged_once_and_again_after_a_success(
    key_type: int, topic: str, property_name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    listening = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(tmp_path)}
    settings = load_settings({**listening, property_name: TOO_MANY})
    broker = await Broker.start(settings, Environment(filesystem=VolatileDisk()))
    try:
        assert await asked(broker, key_type) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await asked(broker, key_type) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        (line,) = caplog.messages
        assert line.startswith(f"{topic}: topic cannot be created (")
        broker.node.settings = load_settings({**listening, property_name: "1"})
        assert await asked(broker, key_type) is ErrorCode.NONE
        assert topic not in broker.node.refused_topics
    finally:
        await broker.stop()


async def asked(broker: Broker, key_type: int) -> ErrorCode:
    peer = Peer(host="127.0.0.1", port=1, listener="PLAINTEXT", connection_id=1)
    request = FindCoordinatorRequest(key="a", key_type=key_type)
    response = find_coordinator.handle(request, Call(broker.node, 2, "test", peer))
    answer = response if hasattr(response, "error_code") else await response
    return ErrorCode(answer.error_code)  # type: ignore[call-arg]  # looks a member up
