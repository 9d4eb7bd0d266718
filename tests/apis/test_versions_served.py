"""Served versions, and the version constants of handlers."""

from __future__ import annotations

import asyncio
import re
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pykbroker import apis
from pykbroker.apis import APIS, delete_topics, list_config_resources
from pykbroker.apis.node import Call
from pykbroker.apis.peer import Peer
from pykbroker.broker import Broker
from pykbroker.controller_access import ConfigurationChange
from pykbroker.environment import Environment
from pykbroker.settings import AlterOperation, load_settings
from pykbroker.testing.profiles.releases import release_named
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from pykbroker_protocol.messages.list_config_resources import ListConfigResourcesRequest
from pykbroker_storage.filesystem import VolatileDisk

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pykbroker.apis import Api

OURS = "4.3"
"""The release of Apache Kafka whose API versions, read from its jars, are served."""


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.key.name)
def test_an_api_is_advertised_in_the_versions_of_apache_kafka(api: Api) -> None:
    assert tuple(api.advertised) == release_named(OURS).apis[api.key.name]


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.key.name)
def test_advertised_versions_are_served(api: Api) -> None:
    """Except for Produce below 3, which is advertised only for librdkafka (KAFKA-18659)."""
    first, last = api.advertised
    assert tuple(api.served) == (3 if api.name == "produce" else first, last)
    for version in api.served:
        assert version in api.request_type.versions
        assert version in api.response_type.versions


# A version constant of a handler and the field that the version adds, removes or makes nullable.
BOUNDS = {
    "api_versions.SOFTWARE_SINCE_VERSION": "ApiVersionsRequest.client_software_name",
    "create_delegation_token.REQUESTER_SINCE_VERSION": (
        "CreateDelegationTokenRequest.owner_principal_name"
    ),
    "delete_topics.STATES_SINCE_VERSION": "DeleteTopicsRequest.topics",
    "describe_cluster.ENDPOINT_TYPE_SINCE_VERSION": "DescribeClusterRequest.endpoint_type",
    "describe_quorum.LISTENERS_SINCE_VERSION": "DescribeQuorumResponse.nodes",
    "fetch.REPLICA_STATE_SINCE_VERSION": "FetchRequest.replica_state",
    "fetch_response.LEADER_ENDPOINTS_SINCE_VERSION": "FetchResponse.node_endpoints",
    "fetch_response.LEADER_HINT_SINCE_VERSION": "FetchResponse.responses.partitions.current_leader",
    "fetch_operation.TOPIC_IDS_SINCE_VERSION": "FetchRequest.topics.topic_id",
    "find_coordinator.BATCHED_SINCE_VERSION": "FindCoordinatorRequest.coordinator_keys",
    "join_group.NULL_PROTOCOL_SINCE_VERSION": "JoinGroupResponse.protocol_name?",
    "joining_transactions.TOPIC_IDS_SINCE_VERSION": "ProduceRequest.topic_data.topic_id",
    "list_config_resources.KINDS_SINCE_VERSION": "ListConfigResourcesRequest.resource_types",
    "list_offsets.EPOCHS_SINCE_VERSION": "ListOffsetsResponse.topics.partitions.leader_epoch",
    "metadata.EMPTY_MEANS_ALL_BELOW_VERSION": "MetadataRequest.topics?",
    "offset_commit.TOPIC_IDS_SINCE_VERSION": "OffsetCommitRequest.topics.topic_id",
    "offset_fetch.GROUP_ERRORS_SINCE_VERSION": "OffsetFetchResponse.error_code",
    "offset_fetch.TOPIC_IDS_SINCE_VERSION": "OffsetFetchRequest.groups.topics.topic_id",
    "produce.LEADER_HINT_SINCE_VERSION": (
        "ProduceResponse.responses.partition_responses.current_leader"
    ),
    "repeated_produce.SINCE_VERSION": (
        "ProduceResponse.responses.partition_responses.log_start_offset"
    ),
    "update_features.DIRECTION_SINCE_VERSION": "UpdateFeaturesRequest.feature_updates.upgrade_type",
    "update_features.RESULTS_BELOW_VERSION": "!UpdateFeaturesResponse.results",
}
# Changes of meaning, which declarations do not contain; `make test` compares with Apache Kafka.
OF_MEANING = {
    "api_versions.ZERO_MINIMUM_SINCE_VERSION": 4,  # KAFKA-17011
    "delete_topics.DISABLED_ERROR_SINCE_VERSION": 3,
    "fetch.FOLLOWERS_SERVE_SINCE_VERSION": 11,  # KIP-392
    "joining_transactions.ABORTABLE_SINCE_VERSION": 11,  # KIP-890
    "joining_transactions.ADDED_SINCE_VERSION": 12,  # KIP-890
    "list_offsets.OFFSET_NOT_AVAILABLE_SINCE_VERSION": 5,  # KIP-207
    "metadata.LISTENER_ERROR_SINCE_VERSION": 6,
    "txn_offset_commit.ABORTABLE_SINCE": 4,  # KIP-890
    "txn_offset_commit.ADDED_HERE_SINCE": 5,  # KIP-890
}
BOUND = re.compile(r"^([A-Z_]*(?:SINCE|BELOW)[A-Z_]*) = \d+$", re.MULTILINE)


def bounds_found() -> set[str]:
    modules = Path(apis.__file__).parent.glob("*.py")
    return {f"{path.stem}.{name}" for path in modules for name in BOUND.findall(path.read_text())}


def value_of(bound: str) -> int:
    module, name = bound.split(".")
    value: int = getattr(import_module(f"pykbroker.apis.{module}"), name)
    return value


def test_each_version_constant_is_in_one_of_the_tables() -> None:
    assert bounds_found() == BOUNDS.keys() | OF_MEANING.keys()
    assert {it: value_of(it) for it in OF_MEANING} == OF_MEANING


@pytest.mark.parametrize(("bound", "path"), BOUNDS.items())
def test_a_version_constant_equals_the_first_version_of_its_field(bound: str, path: str) -> None:
    name, *names = path.strip("?!").split(".")
    found: Any = next(
        getattr(module, name)
        for api in APIS.values()
        for module in [import_module(f"pykbroker_protocol.messages.{api.name}")]
        if hasattr(module, name)
    )
    field: Any = None
    for each in names:
        (field,) = [it for it in found.fields if it.name == each]
        found = field.struct
    if path.startswith("!"):
        assert value_of(bound) == field.versions.last + 1
    else:
        assert value_of(bound) == (field.nullable if path.endswith("?") else field.versions).first


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    listening = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(tmp_path)}
    broker = await Broker.start(load_settings(listening), Environment(filesystem=VolatileDisk()))
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
"""Resource types of topics, brokers, broker loggers, client metrics and groups."""


@pytest.mark.parametrize(
    ("version", "kinds", "found"),
    [
        (0, [], set()),
        (0, [2], set()),
        (1, [], set().union(*KINDS.values())),
        *((1, [kind], names) for kind, names in KINDS.items()),
    ],
)
async def test_config_resources_can_be_requested_by_type_since_version_1(
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
async def test_delete_topics_uses_topic_states_since_version_6(
    version: int, broker: Broker
) -> None:
    by_state = [DeleteTopicState(name="trucks")]
    request = DeleteTopicsRequest(topic_names=["other"], topics=by_state, timeout_ms=0)
    response = await ask(delete_topics, request, broker, version)
    (answer,) = response.responses
    expected = ("trucks", ErrorCode.NONE)
    if version < 6:
        expected = ("other", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert (answer.name, answer.error_code) == expected


@pytest.mark.parametrize("version", range(1, 7))
async def test_disabled_deletion_returns_topic_deletion_disabled_since_version_3(
    version: int, broker: Broker
) -> None:
    broker.node.settings = broker.node.settings.replaced(delete_topic_enable=False)
    topics = [DeleteTopicState(name="trucks")]
    request = DeleteTopicsRequest(topic_names=["trucks"], topics=topics, timeout_ms=0)
    (answer,) = (await ask(delete_topics, request, broker, version)).responses
    code = ErrorCode.TOPIC_DELETION_DISABLED if version >= 3 else ErrorCode.INVALID_REQUEST
    assert answer.error_code == code
