"""Leader elections, reassignments and log directories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from pykbroker_protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from pykbroker_protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from pykbroker_protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from pykbroker_protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tests.apis.conversations.catalog import conversation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.apis.transcript import Plain, Transcript

PREFERRED, UNCLEAN = 0, 1
HERE = 1
NOWHERE = "/no/such/directory"


def elected(*named: tuple[str, Sequence[int]], kind: int = PREFERRED) -> ElectLeadersRequest:
    return ElectLeadersRequest(
        election_type=kind,
        topic_partitions=[TopicPartitions(topic=name, partitions=it) for name, it in named],
        timeout_ms=5000,
    )


@conversation
def leaders_are_elected(broker: Transcript) -> None:
    topic = broker.topic(partitions=2)
    for version in (0, 1, 2):
        for kind in (PREFERRED, UNCLEAN) if version else (PREFERRED,):
            for named in (
                [(topic.name, (0,))],
                [(topic.name, (0, 1))],
                [(topic.name, (0, 0))],
                [(topic.name, (0,)), (topic.name, (1,))],
                [(topic.name, (0, 2, -1))],
                [("no-such-topic", (0,)), (topic.name, (1,))],
                [("", (0,))],
                [("a b", (0,))],
                [(topic.name, ())],
                [],
            ):
                broker.ask(elected(*named, kind=kind), version, note=f"{kind} {named}")
            broker.note(f"ElectLeaders v{version} {kind} all", in_all_topics(broker, version, kind))
    for version in (1, 2):
        for kind in (2, -1):
            broker.ask(elected((topic.name, (0,)), kind=kind), version, note=f"kind {kind}")
        with broker.known_difference("Timeout of zero for immediate operations"):
            hurried = elected((topic.name, (0,))).replace(timeout_ms=-1)
            broker.ask(hurried, version, note="no time")


def in_all_topics(broker: Transcript, version: int, kind: int) -> Plain:
    """Apache Kafka also has topics of other tests."""
    request = ElectLeadersRequest(election_type=kind, topic_partitions=None, timeout_ms=5000)
    answer = broker.plain(broker.quietly(request, version))
    answer["replica_election_results"] = [
        it for it in answer["replica_election_results"] if it["topic"].startswith(broker.prefix)
    ]
    return answer


def moved(
    *named: tuple[str, int, Sequence[int] | None], keeps_count: bool = False
) -> AlterPartitionReassignmentsRequest:
    return AlterPartitionReassignmentsRequest(
        timeout_ms=5000,
        allow_replication_factor_change=not keeps_count,
        topics=[
            ReassignableTopic(
                name=name,
                partitions=[ReassignablePartition(partition_index=index, replicas=replicas)],
            )
            for name, index, replicas in named
        ],
    )


@conversation
def partitions_are_moved(broker: Transcript) -> None:
    topic = broker.topic(partitions=2)
    for version in (0, 1):
        for named in (
            [(topic.name, 0, (HERE,))],
            [(topic.name, 0, (9,))],
            [(topic.name, 0, (HERE, 9))],
            [(topic.name, 0, (HERE, HERE))],
            [(topic.name, 0, ())],
            [(topic.name, 0, (-1,))],
            [(topic.name, 0, None)],
            [(topic.name, 7, (HERE,))],
            [(topic.name, -1, (HERE,))],
            [(topic.name, 7, None)],
            [("no-such-topic", 0, (HERE,))],
            [("no-such-topic", 0, None)],
            [("", 0, (HERE,))],
            [("a b", 0, (HERE,))],
            [(topic.name, 0, (HERE,)), (topic.name, 1, (9,))],
            [(topic.name, 0, (HERE,)), (topic.name, 0, (HERE,))],
            [],
        ):
            broker.ask(moved(*named), version, note=str(named))
    for replicas in ((HERE,), (HERE, 9), (HERE, HERE), ()):
        request = moved((topic.name, 0, replicas), keeps_count=True)
        broker.ask(request, 1, note=f"as many as before {replicas}")
    whole = ReassignableTopic(
        name=topic.name,
        partitions=[
            ReassignablePartition(partition_index=0, replicas=(HERE,)),
            ReassignablePartition(partition_index=0, replicas=(9,)),
            ReassignablePartition(partition_index=1, replicas=None),
        ],
    )
    broker.ask(moved().replace(topics=[whole]), 1, note="a partition twice")
    broker.ask(moved().replace(topics=[whole.replace(partitions=())]), 1, note="no partition")
    broker.settle()
    broker.note("where it lies", broker.plain(broker.metadata_of(topic.name)))


@conversation
def moves_are_listed(broker: Transcript) -> None:
    topic = broker.topic(partitions=2)
    everywhere = ListPartitionReassignmentsRequest(timeout_ms=5000, topics=None)
    broker.ask(everywhere, 0, note="all")
    broker.ask(everywhere.replace(topics=()), 0, note="none")
    for name, indexes in ((topic.name, (0, 1)), (topic.name, (9,)), ("no-such-topic", (0,))):
        named = ListPartitionReassignmentsTopics(name=name, partition_indexes=indexes)
        broker.ask(everywhere.replace(topics=[named]), 0, note=f"{name} {indexes}")


def placed(*wanted: tuple[str, str, Sequence[int]]) -> AlterReplicaLogDirsRequest:
    return AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(
                path=path, topics=[AlterReplicaLogDirTopic(name=name, partitions=partitions)]
            )
            for path, name, partitions in wanted
        ]
    )


@conversation
def replicas_are_moved_between_directories(broker: Transcript) -> None:
    topic = broker.topic(partitions=2)
    (here,) = broker.quietly(DescribeLogDirsRequest(topics=None), 4).results
    for version in (1, 2):
        for note, request in {
            "where it lies": placed((here.log_dir, topic.name, (0, 1))),
            "nowhere": placed((NOWHERE, topic.name, (0,))),
            "a relative path": placed(("data", topic.name, (0,))),
            "an empty path": placed(("", topic.name, (0,))),
            "unknown partition": placed((here.log_dir, topic.name, (7, 0))),
            "unknown topic": placed((here.log_dir, "no-such-topic", (0,))),
            "unknown topic, nowhere": placed((NOWHERE, "no-such-topic", (0,))),
            "no name": placed((here.log_dir, "", (0,))),
            "a bad name": placed((here.log_dir, "a b", (0,))),
            "twice": placed((here.log_dir, topic.name, (0, 0))),
            "two directories": placed(
                (here.log_dir, topic.name, (0,)), (NOWHERE, topic.name, (1,))
            ),
            "no partition": placed((here.log_dir, topic.name, ())),
            "nothing": placed(),
        }.items():
            broker.ask(request, version, note=note)
