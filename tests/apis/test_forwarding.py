"""Administrative requests are forwarded to the active controller if it is another process."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from pykbroker.apis import APIS
from pykbroker.apis.answers import ProtocolViolation
from pykbroker.controller_access import ControllerUnavailable, ForwardedClient, NewTopic
from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.message import Message, Versions
from pykbroker_protocol.messages import (
    alter_configs,
    alter_partition_reassignments,
    api_versions,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_topics,
    describe_quorum,
    elect_leaders,
    find_coordinator,
    incremental_alter_configs,
    list_partition_reassignments,
    metadata,
    unregister_broker,
    update_features,
)
from pykbroker_storage.filesystem import VolatileDisk
from tests.apis.one_broker import Client, answer_of, broker_on

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from pathlib import Path

    from pykbroker.broker import Broker

TIMED_OUT = ErrorCode.REQUEST_TIMED_OUT
UNKNOWN = ErrorCode.UNKNOWN_SERVER_ERROR
TOPIC, BROKER, LOGGER = 2, 4, 8


class Forwarded(NamedTuple):
    request: Any
    version: int
    client: ForwardedClient


class ScriptedController:
    """Implements RequestForwarding with prepared outcomes."""

    def __init__(self) -> None:
        self.outcome: Message | ErrorCode | Exception = ErrorCode.NONE
        self.forwarded: list[Forwarded] = []
        self.versions: dict[int, Versions] = {}
        self.created: list[tuple[NewTopic, ForwardedClient | None]] = []

    def versions_of(self, api_key: int) -> Versions | None:
        return self.versions.get(api_key)

    async def forward(
        self, request: Message, response_type: Any, *, version: int, client: ForwardedClient
    ) -> Any:
        self.forwarded.append(Forwarded(request, version, client))
        if isinstance(self.outcome, Exception):
            raise self.outcome
        assert isinstance(self.outcome, response_type | ErrorCode)
        return self.outcome

    def begin_topic_creation(
        self, topics: Sequence[NewTopic], client: ForwardedClient | None
    ) -> None:
        self.created += [(it, client) for it in topics]


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    async with broker_on(VolatileDisk(), tmp_path / "data") as broker:
        yield broker


@pytest.fixture
def controller(broker: Broker) -> ScriptedController:
    controller = ScriptedController()
    broker.node.forward = controller
    return controller


async def ask(broker: Broker, request: Message, version: int) -> Any:
    return await answer_of(Client(broker).ask(request, version))


class Case(NamedTuple):
    request: Message
    version: int
    codes_of: Callable[[Any], list[int]]


def topic(name: str) -> create_topics.CreatableTopic:
    return create_topics.CreatableTopic(
        name=name, num_partitions=1, replication_factor=1, assignments=(), configs=()
    )


CASES = [
    Case(
        create_topics.CreateTopicsRequest(topics=[topic("a"), topic("b")]),
        7,
        lambda it: [row.error_code for row in it.topics],
    ),
    Case(
        delete_topics.DeleteTopicsRequest(
            topics=[delete_topics.DeleteTopicState(name=it) for it in ("a", "b")], timeout_ms=1
        ),
        6,
        lambda it: [row.error_code for row in it.responses],
    ),
    Case(
        delete_topics.DeleteTopicsRequest(topic_names=["a", "b"], timeout_ms=1),
        5,
        lambda it: [row.error_code for row in it.responses],
    ),
    Case(
        create_partitions.CreatePartitionsRequest(
            topics=[
                create_partitions.CreatePartitionsTopic(name=it, count=2, assignments=None)
                for it in ("a", "b")
            ],
            timeout_ms=1,
            validate_only=False,
        ),
        3,
        lambda it: [row.error_code for row in it.results],
    ),
    Case(
        create_acls.CreateAclsRequest(
            creations=[
                create_acls.AclCreation(
                    resource_type=2,
                    resource_name=it,
                    principal="User:a",
                    host="*",
                    operation=3,
                    permission_type=3,
                )
                for it in ("a", "b")
            ]
        ),
        3,
        lambda it: [row.error_code for row in it.results],
    ),
    Case(
        delete_acls.DeleteAclsRequest(
            filters=[
                delete_acls.DeleteAclsFilter(
                    resource_type_filter=2,
                    resource_name_filter=it,
                    principal_filter=None,
                    host_filter=None,
                    operation=1,
                    permission_type=1,
                )
                for it in ("a", "b")
            ]
        ),
        3,
        lambda it: [row.error_code for row in it.filter_results],
    ),
    Case(
        elect_leaders.ElectLeadersRequest(
            topic_partitions=[elect_leaders.TopicPartitions(topic="a", partitions=[0])]
        ),
        2,
        lambda it: [
            it.error_code,
            *(row.error_code for row in it.replica_election_results[0].partition_result),
        ],
    ),
    Case(
        alter_partition_reassignments.AlterPartitionReassignmentsRequest(
            topics=[
                alter_partition_reassignments.ReassignableTopic(
                    name="a",
                    partitions=[
                        alter_partition_reassignments.ReassignablePartition(
                            partition_index=0, replicas=[1]
                        )
                    ],
                )
            ]
        ),
        1,
        lambda it: [it.error_code, *(row.error_code for row in it.responses[0].partitions)],
    ),
    Case(
        list_partition_reassignments.ListPartitionReassignmentsRequest(topics=None),
        0,
        lambda it: [it.error_code, it.error_code],
    ),
    Case(
        describe_quorum.DescribeQuorumRequest(topics=()),
        2,
        lambda it: [it.error_code, it.error_code],
    ),
    Case(
        update_features.UpdateFeaturesRequest(feature_updates=()),
        2,
        lambda it: [it.error_code, it.error_code],
    ),
    Case(
        unregister_broker.UnregisterBrokerRequest(broker_id=2),
        0,
        lambda it: [it.error_code, it.error_code],
    ),
    Case(
        alter_configs.AlterConfigsRequest(
            resources=[
                alter_configs.AlterConfigsResource(
                    resource_type=TOPIC, resource_name=it, configs=()
                )
                for it in ("a", "b")
            ],
            validate_only=False,
        ),
        2,
        lambda it: [row.error_code for row in it.responses],
    ),
    Case(
        incremental_alter_configs.IncrementalAlterConfigsRequest(
            resources=[
                incremental_alter_configs.AlterConfigsResource(
                    resource_type=TOPIC, resource_name=it, configs=()
                )
                for it in ("a", "b")
            ],
            validate_only=False,
        ),
        1,
        lambda it: [row.error_code for row in it.responses],
    ),
]
CASE_IDS = [f"{ApiKey(it.request.api).name.lower()}-{it.version}" for it in CASES]


def test_every_forwarded_api_has_a_case() -> None:
    assert {it.request.api for it in CASES} == {it.key for it in APIS.values() if it.forwarded}


@pytest.mark.parametrize("case", CASES, ids=CASE_IDS)
async def test_the_request_of_the_client_reaches_the_controller(
    broker: Broker, controller: ScriptedController, case: Case
) -> None:
    controller.outcome = ControllerUnavailable("")
    await ask(broker, case.request, case.version)
    (forwarded,) = controller.forwarded
    assert forwarded == (case.request, case.version, ForwardedClient("client", "127.0.0.1"))


@pytest.mark.parametrize("case", CASES, ids=CASE_IDS)
@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (ControllerUnavailable("no controller"), TIMED_OUT),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, UNKNOWN),
    ],
)
async def test_a_failure_is_an_error_of_each_element(
    broker: Broker,
    controller: ScriptedController,
    case: Case,
    outcome: ErrorCode | Exception,
    expected: ErrorCode,
) -> None:
    controller.outcome = outcome
    assert case.codes_of(await ask(broker, case.request, case.version)) == [expected, expected]


@pytest.mark.parametrize("case", CASES, ids=CASE_IDS)
async def test_a_version_that_the_controller_does_not_support_closes_the_connection(
    broker: Broker, controller: ScriptedController, case: Case
) -> None:
    controller.outcome = ErrorCode.UNSUPPORTED_VERSION
    with pytest.raises(ProtocolViolation, match="does not support"):
        await ask(broker, case.request, case.version)


async def test_the_response_of_the_controller_is_relayed(
    broker: Broker, controller: ScriptedController
) -> None:
    controller.outcome = create_topics.CreateTopicsResponse(
        throttle_time_ms=7,
        topics=[
            create_topics.CreatableTopicResult(
                name="a", error_code=ErrorCode.POLICY_VIOLATION, error_message="no"
            )
        ],
    )
    response = await ask(broker, create_topics.CreateTopicsRequest(topics=[topic("a")]), 7)
    assert response == controller.outcome
    assert "a" not in broker.node.image.topics


async def test_a_large_request_is_forwarded_as_one_request(
    broker: Broker, controller: ScriptedController
) -> None:
    names = [f"t{it}" for it in range(2000)]
    request = elect_leaders.ElectLeadersRequest(
        topic_partitions=[
            elect_leaders.TopicPartitions(topic=name, partitions=[0]) for name in names
        ]
    )
    controller.outcome = elect_leaders.ElectLeadersResponse(replica_election_results=())
    assert await ask(broker, request, 2) == controller.outcome
    (forwarded,) = controller.forwarded
    assert forwarded.request == request


# --- changes of configurations, which this broker validates first


def altered(kind: int, name: str, **values: str | None) -> Any:
    return incremental_alter_configs.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            incremental_alter_configs.AlterableConfig(
                name=key.replace("_", "."), config_operation=0, value=value
            )
            for key, value in values.items()
        ],
    )


async def test_only_valid_resources_of_the_controller_are_forwarded(
    broker: Broker, controller: ScriptedController
) -> None:
    own = str(broker.node_id)
    resources = [
        altered(TOPIC, "a", retention_ms="1"),
        altered(BROKER, "77", log_retention_ms="1"),
        altered(BROKER, own, process_roles="broker"),
        altered(BROKER, "", log_retention_ms="5"),
        altered(LOGGER, own, pykbroker="DEBUG"),
        altered(99, "x"),
        altered(TOPIC, "null", retention_ms=None),
        altered(TOPIC, "twice"),
        altered(TOPIC, "twice"),
        altered(TOPIC, "lost"),
    ]
    controller.outcome = incremental_alter_configs.IncrementalAlterConfigsResponse(
        responses=[
            incremental_alter_configs.AlterConfigsResourceResponse(
                error_code=code, error_message=None, resource_type=kind, resource_name=name
            )
            for code, kind, name in (
                (ErrorCode.NONE, BROKER, ""),
                (ErrorCode.INVALID_CONFIG, TOPIC, "a"),
            )
        ]
    )
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=resources, validate_only=True
    )
    response = await ask(broker, request, 1)
    (forwarded,) = controller.forwarded
    assert forwarded.request == request.replace(
        resources=[resources[0], resources[3], resources[9]]
    )
    assert [(it.resource_name, it.error_code) for it in response.responses] == [
        ("a", ErrorCode.INVALID_CONFIG),
        ("77", ErrorCode.INVALID_REQUEST),
        (own, ErrorCode.INVALID_REQUEST),
        ("", ErrorCode.NONE),
        (own, ErrorCode.NONE),
        ("x", ErrorCode.INVALID_REQUEST),
        ("null", ErrorCode.INVALID_REQUEST),
        ("twice", ErrorCode.INVALID_REQUEST),
        ("twice", ErrorCode.INVALID_REQUEST),
        ("lost", UNKNOWN),
    ]


async def test_nothing_is_forwarded_if_all_resources_are_refused(
    broker: Broker, controller: ScriptedController
) -> None:
    request = alter_configs.AlterConfigsRequest(
        resources=[
            alter_configs.AlterConfigsResource(resource_type=kind, resource_name="77", configs=())
            for kind in (BROKER, LOGGER)
        ],
        validate_only=False,
    )
    response = await ask(broker, request, 2)
    assert [it.error_code for it in response.responses] == [ErrorCode.INVALID_REQUEST] * 2
    assert not controller.forwarded


# --- ApiVersions


async def test_advertised_versions_are_limited_to_those_of_the_controller(
    broker: Broker, controller: ScriptedController
) -> None:
    controller.versions = {
        ApiKey.CREATE_TOPICS: Versions(2, 5),
        ApiKey.ELECT_LEADERS: Versions(0, -1),
        ApiKey.METADATA: Versions(0, 1),
    }
    response = await ask(
        broker,
        api_versions.ApiVersionsRequest(client_software_name="a", client_software_version="1"),
        4,
    )
    offered = {it.api_key: (it.min_version, it.max_version) for it in response.api_keys}
    assert offered[ApiKey.CREATE_TOPICS] == (2, 5)
    assert ApiKey.ELECT_LEADERS not in offered
    assert offered[ApiKey.METADATA] == APIS[ApiKey.METADATA].advertised
    assert offered[ApiKey.DELETE_TOPICS] == APIS[ApiKey.DELETE_TOPICS].advertised


# --- topics that the broker itself creates


def named(*names: str) -> metadata.MetadataRequest:
    return metadata.MetadataRequest(
        topics=[metadata.MetadataRequestTopic(name=name) for name in names],
        allow_auto_topic_creation=True,
    )


async def test_metadata_lets_the_controller_create_unknown_topics_and_does_not_wait(
    broker: Broker, controller: ScriptedController
) -> None:
    response = await ask(broker, named("new", "no/name", "__consumer_offsets"), 12)
    assert {it.name: it.error_code for it in response.topics} == {
        "new": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "no/name": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "__consumer_offsets": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert controller.created == [(NewTopic(name="new"), ForwardedClient("client", "127.0.0.1"))]


async def test_an_automatically_created_topic_has_the_numbers_in_the_file_of_the_broker(
    tmp_path: Path,
) -> None:
    async with broker_on(
        VolatileDisk(), tmp_path, num_partitions=5, default_replication_factor=3
    ) as broker:
        broker.node.forward = controller = ScriptedController()
        await ask(broker, named("new"), 12)
    ((topic, _),) = controller.created
    assert (topic.partitions, topic.replication_factor) == (5, 3)


@pytest.mark.parametrize(
    ("key_type", "configuration"),
    [(0, {}), (1, {"min.insync.replicas": "2"})],
)
async def test_internal_topics_of_a_cluster_have_the_configured_replication_factor(
    broker: Broker,
    controller: ScriptedController,
    key_type: int,
    configuration: dict[str, str],
) -> None:
    request = find_coordinator.FindCoordinatorRequest(key="a", key_type=key_type)
    response = await ask(broker, request, 2)
    assert response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    ((topic, client),) = controller.created
    assert client is None
    assert topic.replication_factor == 3
    assert configuration.items() <= topic.configuration.items()


@pytest.mark.parametrize(
    ("key_type", "name"), [(0, "__consumer_offsets"), (1, "__transaction_state")]
)
async def test_a_node_that_is_its_whole_cluster_creates_internal_topics_with_one_replica(
    broker: Broker, key_type: int, name: str
) -> None:
    request = find_coordinator.FindCoordinatorRequest(key="a", key_type=key_type)
    assert (await ask(broker, request, 2)).error_code == ErrorCode.NONE
    assert broker.node.image.topics[name].partitions[0].replicas == (broker.node_id,)


async def test_internal_topics_are_refused_below_the_configured_replication_factor(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    other = dataclasses.replace(broker.node.image.brokers[broker.node_id], id=99)
    broker.node.image.brokers[99] = other
    request = find_coordinator.FindCoordinatorRequest(key="a", key_type=0)
    assert (await ask(broker, request, 2)).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert "__consumer_offsets: topic cannot be created" in caplog.text
