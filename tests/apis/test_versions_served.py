"""The versions of each API, and what changes between them where a handler asks for the version."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from pykbroker.apis import APIS, delete_topics, list_config_resources
from pykbroker.apis.node import Call
from pykbroker.apis.peer import Peer
from pykbroker.broker import Broker
from pykbroker.controller.configurations import ConfigurationChange
from pykbroker.settings import AlterOperation, load_settings
from pykbroker.testing.profiles.releases import release_named
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from pykbroker_protocol.messages.list_config_resources import ListConfigResourcesRequest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from pykbroker.apis import Api

OURS = "4.3"
"""The release of Apache Kafka whose APIs are served; its table is read out of its jars."""


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.key.name)
def test_an_api_is_advertised_in_the_versions_of_apache_kafka(api: Api) -> None:
    assert tuple(api.advertised) == release_named(OURS).apis[api.key.name]


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.key.name)
def test_what_is_advertised_is_served(api: Api) -> None:
    """But for Produce below 3, which is advertised for librdkafka alone (KAFKA-18659)."""
    first, last = api.advertised
    assert tuple(api.served) == (3 if api.name == "produce" else first, last)
    for version in api.served:
        assert version in api.request_type.versions
        assert version in api.response_type.versions


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    listening = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(tmp_path)}
    broker = await Broker.start(load_settings(listening), ephemeral=True)
    await broker.create_topics([("trucks", 1, 1)])
    yield broker
    await broker.stop()


def call(broker: Broker, version: int) -> Call:
    peer = Peer(host="127.0.0.1", port=1, listener="PLAINTEXT", connection_id=1)
    return Call(broker.node, version, "test", peer)


async def ask(handler: Any, request: Any, broker: Broker, version: int) -> Any:
    answer = handler.handle(request, call(broker, version))
    return await answer if asyncio.iscoroutine(answer) else answer


KINDS = {2: {"trucks"}, 4: {"1"}, 8: {"1"}, 16: set(), 32: {"g"}}
"""Topics, brokers, their loggers, clients' metrics, groups."""


@pytest.mark.parametrize(
    ("version", "kinds", "found"),
    [
        (0, [], set()),
        (0, [2], set()),
        (1, [], set().union(*KINDS.values())),
        *((1, [kind], names) for kind, names in KINDS.items()),
    ],
)
async def test_resources_can_be_asked_for_by_kind_since_version_1(
    version: int, kinds: list[int], found: set[str], broker: Broker
) -> None:
    setting = [("consumer.session.timeout.ms", AlterOperation.SET, "50000")]
    change = ConfigurationChange(resource_type=32, name="g", operations=setting)
    assert await broker.controller.alter_configurations([change]) == [None]
    request = ListConfigResourcesRequest(resource_types=kinds)
    response = await ask(list_config_resources, request, broker, version)
    assert response.error_code == ErrorCode.NONE
    assert {it.resource_name for it in response.config_resources} == found


@pytest.mark.parametrize("version", range(1, 7))
async def test_a_topic_to_delete_is_named_by_its_state_since_version_6(
    version: int, broker: Broker
) -> None:
    by_state = [DeleteTopicState(name="trucks")]
    request = DeleteTopicsRequest(topic_names=["other"], topics=by_state)
    response = await ask(delete_topics, request, broker, version)
    (answer,) = response.responses
    expected = ("trucks", ErrorCode.NONE)
    if version < 6:
        expected = ("other", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert (answer.name, answer.error_code) == expected


@pytest.mark.parametrize("version", range(1, 7))
async def test_deletion_that_is_disabled_has_a_code_of_its_own_since_version_3(
    version: int, broker: Broker
) -> None:
    broker.node.settings = broker.node.settings.replaced(delete_topic_enable=False)
    topics = [DeleteTopicState(name="trucks")]
    request = DeleteTopicsRequest(topic_names=["trucks"], topics=topics)
    (answer,) = (await ask(delete_topics, request, broker, version)).responses
    code = ErrorCode.TOPIC_DELETION_DISABLED if version >= 3 else ErrorCode.INVALID_REQUEST
    assert answer.error_code == code
