"""Request handlers answer with an error code when the controller fails or cannot be reached."""

from collections.abc import AsyncIterator, Callable, Sequence
from inspect import isawaitable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pykbroker.apis import APIS
from pykbroker.apis.node import Call
from pykbroker.apis.peer import Peer
from pykbroker.apis.producer_ids import ProducerIds
from pykbroker.broker import Broker
from pykbroker.controller_access import ControllerAccess
from pykbroker.environment import Environment
from pykbroker.settings import load_settings
from pykbroker_protocol.api_keys import ApiKey
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.message import Message
from pykbroker_protocol.messages import (
    alter_configs,
    alter_partition_reassignments,
    create_partitions,
    create_topics,
    delete_topics,
    describe_quorum,
    elect_leaders,
    incremental_alter_configs,
    init_producer_id,
    metadata,
    unregister_broker,
    update_features,
)
from pykbroker_storage.filesystem import VolatileDisk

TIMED_OUT = ErrorCode.REQUEST_TIMED_OUT


class UnreachableController:
    """Implements all commands of ControllerAccess; none reaches a controller."""

    def __getattr__(self, name: str) -> Any:
        assert name in vars(ControllerAccess), name

        async def refuse(*commands: Any, **_: Any) -> Any:
            refusal = Refusal(TIMED_OUT, "no controller answered")
            is_many = commands and isinstance(commands[0], Sequence) and name != "update_features"
            return [refusal for _ in commands[0]] if is_many else refusal

        return refuse


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    given = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(tmp_path / "data")}
    broker = await Broker.start(load_settings(given), Environment(filesystem=VolatileDisk()))
    broker.node.controller = UnreachableController()
    broker.node.producer_ids = ProducerIds(UnreachableController())
    yield broker
    await broker.stop()


async def answer(broker: Broker, key: ApiKey, request: Message, version: int) -> Any:
    peer = Peer(host="127.0.0.1", port=1, listener="PLAINTEXT", connection_id=1)
    answered: Any = APIS[key].handle(request, Call(broker.node, version, "test", peer))
    while isawaitable(answered):
        answered = await answered
    return answered


class Case(NamedTuple):
    key: ApiKey
    version: int
    request: Message
    code_of: Callable[[Any], int]
    expected: ErrorCode


CASES = [
    Case(
        ApiKey.CREATE_TOPICS,
        7,
        create_topics.CreateTopicsRequest(
            topics=[
                create_topics.CreatableTopic(
                    name="a", num_partitions=1, replication_factor=1, assignments=(), configs=()
                )
            ],
            timeout_ms=1,
        ),
        lambda it: it.topics[0].error_code,
        TIMED_OUT,
    ),
    Case(
        ApiKey.DELETE_TOPICS,
        6,
        delete_topics.DeleteTopicsRequest(
            topics=[delete_topics.DeleteTopicState(name="a")], timeout_ms=1
        ),
        lambda it: it.responses[0].error_code,
        TIMED_OUT,
    ),
    Case(
        ApiKey.CREATE_PARTITIONS,
        3,
        create_partitions.CreatePartitionsRequest(
            topics=[create_partitions.CreatePartitionsTopic(name="a", count=2, assignments=None)],
            timeout_ms=1,
            validate_only=False,
        ),
        lambda it: it.results[0].error_code,
        TIMED_OUT,
    ),
    Case(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        incremental_alter_configs.IncrementalAlterConfigsRequest(
            resources=[
                incremental_alter_configs.AlterConfigsResource(
                    resource_type=2, resource_name="a", configs=()
                )
            ],
            validate_only=False,
        ),
        lambda it: it.responses[0].error_code,
        TIMED_OUT,
    ),
    Case(
        ApiKey.ALTER_CONFIGS,
        2,
        alter_configs.AlterConfigsRequest(
            resources=[
                alter_configs.AlterConfigsResource(resource_type=2, resource_name="a", configs=())
            ],
            validate_only=False,
        ),
        lambda it: it.responses[0].error_code,
        TIMED_OUT,
    ),
    Case(
        ApiKey.ELECT_LEADERS,
        2,
        elect_leaders.ElectLeadersRequest(
            election_type=0,
            topic_partitions=[elect_leaders.TopicPartitions(topic="a", partitions=[0])],
        ),
        lambda it: it.replica_election_results[0].partition_result[0].error_code,
        TIMED_OUT,
    ),
    Case(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        0,
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
            ],
        ),
        lambda it: it.responses[0].partitions[0].error_code,
        TIMED_OUT,
    ),
    Case(
        ApiKey.UPDATE_FEATURES,
        2,
        update_features.UpdateFeaturesRequest(feature_updates=()),
        lambda it: it.error_code,
        TIMED_OUT,
    ),
    Case(
        ApiKey.UNREGISTER_BROKER,
        0,
        unregister_broker.UnregisterBrokerRequest(broker_id=2),
        lambda it: it.error_code,
        TIMED_OUT,
    ),
    Case(
        ApiKey.DESCRIBE_QUORUM,
        2,
        describe_quorum.DescribeQuorumRequest(
            topics=[
                describe_quorum.TopicData(
                    topic_name="__cluster_metadata",
                    partitions=[describe_quorum.PartitionData(partition_index=0)],
                )
            ]
        ),
        lambda it: it.error_code,
        TIMED_OUT,
    ),
    Case(
        ApiKey.INIT_PRODUCER_ID,
        5,
        init_producer_id.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1),
        lambda it: it.error_code,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,  # clients retry
    ),
    Case(
        ApiKey.METADATA,
        12,
        metadata.MetadataRequest(
            topics=[metadata.MetadataRequestTopic(name="a")], allow_auto_topic_creation=True
        ),
        lambda it: it.topics[0].error_code,
        TIMED_OUT,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=[it.key.name.lower() for it in CASES])
async def test_a_command_to_an_unreachable_controller_gets_an_error_response(
    broker: Broker, case: Case
) -> None:
    response = await answer(broker, case.key, case.request, case.version)
    assert case.code_of(response) == case.expected
