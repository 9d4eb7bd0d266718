"""Field values that no client sends, found by the differential probe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from pykbroker_protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from pykbroker_protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from pykbroker_protocol.messages.fetch import ForgottenTopic
from pykbroker_protocol.messages.find_coordinator import FindCoordinatorRequest
from pykbroker_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from pykbroker_protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from tests.apis.conversations.catalog import conversation
from tests.apis.conversations.fetching import filled
from tests.apis.conversations.offsets import epoch_asked
from tests.apis.request_builders import fetched, from_partition, offsets_at

if TYPE_CHECKING:
    from tests.apis.transcript import Transcript

LEAST = -(2**31)


@conversation
def a_new_session_with_removed_partitions(broker: Transcript) -> None:
    topic = broker.topic()
    gone = ForgottenTopic(topic=topic.name, topic_id=topic.id, partitions=[0])
    query = from_partition(topic=topic.name, topic_id=topic.id)
    for version in (7, 12, 18):
        request = fetched(query, session_epoch=0).replace(forgotten_topics_data=[gone])
        broker.ask(request, version)


@conversation
def epochs_of_an_empty_log(broker: Transcript) -> None:
    topic = broker.topic()
    for epoch in (0, 1, -1, -2):
        request = from_partition(topic=topic.name, topic_id=topic.id, last_fetched_epoch=epoch)
        broker.ask(fetched(request), 17, note=f"last fetched in {epoch}")


@conversation
def leader_epochs_below_minus_1(broker: Transcript) -> None:
    for topic in (filled(broker), broker.topic("empty")):
        for epoch in (-2, LEAST):
            query = from_partition(topic=topic.name, topic_id=topic.id, current_leader_epoch=epoch)
            broker.ask(fetched(query), 17, note=f"current {epoch}")
            for current, expected in ((epoch, 0), (-1, epoch)):
                place = epoch_asked(topic.name, expected, current, 0)
                request = OffsetForLeaderEpochRequest(replica_id=-1, topics=[place])
                broker.ask(request, 4, note=f"current {current}, epoch {expected}")
            (latest,) = offsets_at(topic.name, (-1,))
            (at_end,) = latest.topics
            partitions = [it.replace(current_leader_epoch=epoch) for it in at_end.partitions]
            latest = latest.replace(topics=[at_end.replace(partitions=partitions)])
            broker.ask(latest, 9, note=f"current {epoch}")


@conversation
def the_coordinator_of_an_invalid_share_key(broker: Transcript) -> None:
    for key in ("group", "group:id:0", ""):
        broker.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=[key]), 6, note=key)


@conversation
def a_topic_name_with_the_id_of_another_topic(broker: Transcript) -> None:
    topic, other = broker.topic(), broker.topic("other")
    for version in (12, 13):
        for topic_id in (bytes(range(16)), other.id):
            row = MetadataRequestTopic(name=topic.name, topic_id=topic_id)
            broker.ask(MetadataRequest(topics=[row]), version)


@conversation
def too_many_partitions(broker: Transcript) -> None:
    """Assigns only some partitions: Apache Kafka's controller fails to assign all of them."""
    topic = broker.topic()
    here = CreatePartitionsAssignment(broker_ids=[1])
    for count in (20_000, 2**31 - 1):
        row = CreatePartitionsTopic(name=topic.name, count=count, assignments=[here])
        request = CreatePartitionsRequest(topics=[row], timeout_ms=5000, validate_only=False)
        broker.ask(request, 3, note=str(count))


@conversation
def a_token_for_another_owner(broker: Transcript) -> None:
    owners = (("User", "driver"), ("", "driver"), ("User", ""), ("User", None), (None, None))
    for kind, name in owners:
        request = CreateDelegationTokenRequest(
            owner_principal_type=kind,
            owner_principal_name=name,
            renewers=(),
            max_lifetime_ms=-1,
        )
        broker.ask(request, 3, note=f"{kind} {name}")


@conversation
def a_topic_name_too_long_for_a_future_directory(broker: Transcript) -> None:
    for length in (200, 212, 213, 214, 249, 300):
        topic = AlterReplicaLogDirTopic(name="x" * length, partitions=[0])
        move = AlterReplicaLogDir(path="/no/such/directory", topics=[topic])
        broker.ask(AlterReplicaLogDirsRequest(dirs=[move]), 2, note=str(length))
