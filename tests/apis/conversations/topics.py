"""CreateTopics, DeleteTopics and CreatePartitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_protocol.message import ZERO_UUID
from pykbroker_protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from pykbroker_protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.apis.conversations.catalog import conversation
from tests.apis.request_builders import created, new_topic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pykbroker_protocol.messages.create_topics import CreatableTopic
    from tests.apis.transcript import Transcript

NO_SUCH_ID = bytes(range(1, 17))
BAD_NAMES = ("", ".", "..", "a b", "a/b", "ä", "x" * 250, "a\nb", "a:b", "a!b")


def create(broker: Transcript, topic: CreatableTopic, version: int = 7, note: str = "") -> None:
    """Creates a topic and registers its id for the record."""
    response = broker.quietly(created(topic, validate_only=True), version)
    broker.note(f"validate only: {note or topic.name}", broker.plain(response))
    response = broker.quietly(created(topic), version)
    if version == 7 and response.topics[0].topic_id != ZERO_UUID:
        broker.new_word(response.topics[0].topic_id, f"id of {topic.name}")
    broker.note(f"create: {note or topic.name}", broker.plain(response))


@conversation
def topics_are_created_in_each_version(broker: Transcript) -> None:
    for version in range(2, 8):
        name = f"{broker.prefix}-v{version}"
        create(broker, new_topic(name, 3), version)
        broker.until_ready(name, 3)
        create(broker, new_topic(name, 3), version, "exists already")
    for version in (4, 7):
        name = f"{broker.prefix}-defaults-{version}"
        create(broker, new_topic(name, -1, -1), version, "defaults")
    for version in (2, 3):
        name = f"{broker.prefix}-defaults-{version}"
        create(broker, new_topic(name, -1, -1), version, "defaults before version 4")


@conversation
def invalid_topic_names(broker: Transcript) -> None:
    for name in BAD_NAMES:
        create(broker, new_topic(name), 7)
    create(broker, new_topic("x" * 250), 4)
    longest = (broker.prefix + "x" * 250)[:249]
    create(broker, new_topic(longest), note="249 letters")


@conversation
def colliding_topic_names(broker: Transcript) -> None:
    create(broker, new_topic(f"{broker.prefix}-a.b"))
    create(broker, new_topic(f"{broker.prefix}-a_b"))
    both = created(new_topic(f"{broker.prefix}-c.d"), new_topic(f"{broker.prefix}-c_d"))
    broker.ask(both, 4, note="at once")


@conversation
def invalid_partition_and_replica_counts(broker: Transcript) -> None:
    name = f"{broker.prefix}-t"
    for partitions, replicas in (
        (0, 1),
        (-2, 1),
        (1, 0),
        (1, -2),
        (1, 2),
        (1, 100),
        (1, 32767),
        (0, 0),
        (100_000, 1),
        (2_000_000_000, 1),
    ):
        create(broker, new_topic(name, partitions, replicas), 7, f"{partitions}, {replicas}")


@conversation
def manual_replica_assignments(broker: Transcript) -> None:
    cases: dict[str, tuple[int, int, Sequence[tuple[int, Sequence[int]]]]] = {
        "good": (-1, -1, [(0, [1]), (1, [1])]),
        "any order": (-1, -1, [(1, [1]), (0, [1])]),
        "with a count": (2, -1, [(0, [1]), (1, [1])]),
        "with a factor": (-1, 1, [(0, [1])]),
        "with both": (1, 1, [(0, [1])]),
        "no broker": (-1, -1, [(0, [])]),
        "unknown broker": (-1, -1, [(0, [99])]),
        "negative broker": (-1, -1, [(0, [-1])]),
        "a broker twice": (-1, -1, [(0, [1, 1])]),
        "a gap": (-1, -1, [(0, [1]), (2, [1])]),
        "not from 0": (-1, -1, [(1, [1])]),
        "negative partition": (-1, -1, [(-1, [1])]),
        "twice": (-1, -1, [(0, [1]), (0, [1])]),
        "twice with a count": (2, -1, [(0, [1]), (0, [1])]),
        "twice with a factor": (-1, 1, [(0, [1]), (0, [1])]),
        "unlike": (-1, -1, [(0, [1]), (1, [1, 99])]),
    }
    for number, (note, (partitions, replicas, assignments)) in enumerate(cases.items()):
        name = f"{broker.prefix}-{number}"
        for version in (2, 7):
            topic = new_topic(f"{name}-{version}", partitions, replicas, assignments)
            create(broker, topic, version, f"{note} v{version}")
    there = broker.topic("there").name
    create(broker, new_topic(there, -1, -1, [(0, [1]), (0, [1])]), 7, "twice, and there already")


@conversation
def configurations_of_new_topics(broker: Transcript) -> None:
    cases: dict[str, Sequence[tuple[str, str | None]]] = {
        "good": [("retention.ms", "1000"), ("cleanup.policy", "compact,delete")],
        "unknown": [("no.such.property", "1")],
        "not a number": [("retention.ms", "soon")],
        "too small": [("segment.bytes", "1")],
        "below its bound": [("retention.ms", "-2")],
        "not of the choices": [("cleanup.policy", "shred")],
        "no choice": [("compression.type", "rar")],
        "null": [("retention.ms", None)],
        "empty": [("retention.ms", "")],
        "empty list": [("cleanup.policy", "")],
        "twice": [("retention.ms", "1"), ("retention.ms", "2")],
        "beyond int": [("segment.bytes", "4294967296")],
        "boolean": [("preallocate", "yes")],
        "ratio": [("min.cleanable.dirty.ratio", "1.5")],
        "two bad": [("retention.ms", "x"), ("segment.bytes", "y")],
        "a broker's": [("log.retention.ms", "1000")],
        "level": [("compression.gzip.level", "10")],
        "local above all": [("local.retention.ms", "2000"), ("retention.ms", "1000")],
        "remote": [("remote.storage.enable", "true")],
        "min insync": [("min.insync.replicas", "0")],
        "throttled": [("leader.replication.throttled.replicas", "0:1")],
        "throttled wrongly": [("leader.replication.throttled.replicas", "zero")],
        "timestamp type": [("message.timestamp.type", "Now")],
        "lag": [("max.compaction.lag.ms", "1"), ("min.compaction.lag.ms", "2")],
    }
    for number, (note, configs) in enumerate(cases.items()):
        create(broker, new_topic(f"{broker.prefix}-{number}", configs=configs), 7, note)
    with broker.known_difference("Normalized property values"):
        for number, (key, value) in enumerate(
            (("retention.ms", " 1000 "), ("unclean.leader.election.enable", "TRUE"))
        ):
            topic = new_topic(f"{broker.prefix}-as-understood-{number}", configs=[(key, value)])
            create(broker, topic, 7, value)
    topic = new_topic(f"{broker.prefix}-old", configs=[("retention.ms", "x")])
    create(broker, topic, 4, "version 4")


@conversation
def several_topics_per_request(broker: Transcript) -> None:
    one, other = f"{broker.prefix}-one", f"{broker.prefix}-other"
    for version in (2, 4):
        broker.ask(created(new_topic(one), new_topic(one)), version, note="the same twice")
        three = created(new_topic(one), new_topic(other), new_topic(one))
        broker.ask(three, version, note="one twice and another")
        broker.ask(created(new_topic("a b"), new_topic(f"{one}{version}")), version, note="one bad")
        broker.ask(created(), version, note="none")
    for name in ("__consumer_offsets", "__cluster_metadata", "__transaction_state"):
        broker.ask(created(new_topic(name), validate_only=True), 4, note=name)


def deleted(*names: str) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topic_names=names, timeout_ms=5000)


def deleted_by(*topics: DeleteTopicState) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topics=topics, timeout_ms=5000)


@conversation
def topics_are_deleted_in_each_version(broker: Transcript) -> None:
    for version in range(1, 6):
        topic = broker.topic(f"v{version}")
        broker.ask(deleted(topic.name), version)
        broker.until_gone(topic.name)
        broker.ask(deleted(topic.name), version, note="gone already")
    by_name, by_id = broker.topic("by-name"), broker.topic("by-id")
    broker.ask(deleted_by(DeleteTopicState(name=by_name.name)), 6)
    broker.ask(deleted_by(DeleteTopicState(topic_id=by_id.id)), 6)
    broker.until_gone(by_name.name)
    broker.until_gone(by_id.name)
    broker.ask(deleted_by(DeleteTopicState(topic_id=by_id.id)), 6, note="gone already")


@conversation
def invalid_topic_deletions(broker: Transcript) -> None:
    topic = broker.topic()
    for version in (1, 4, 5):
        broker.ask(deleted("no-such-topic"), version)
        broker.ask(deleted(""), version)
        broker.ask(deleted("a b"), version)
        broker.ask(deleted("no-such-topic", "no-such-topic"), version, note="twice")
        broker.ask(deleted(), version)
    for note, state in {
        "unknown name": DeleteTopicState(name="no-such-topic"),
        "unknown id": DeleteTopicState(topic_id=NO_SUCH_ID),
        "neither": DeleteTopicState(topic_id=ZERO_UUID),
        "both": DeleteTopicState(name=topic.name, topic_id=topic.id),
        "both, unlike": DeleteTopicState(name=topic.name, topic_id=NO_SUCH_ID),
    }.items():
        broker.ask(deleted_by(state), 6, note=note)
    named, numbered = DeleteTopicState(name=topic.name), DeleteTopicState(topic_id=topic.id)
    broker.ask(deleted_by(named, named), 6, note="a name twice")
    broker.ask(deleted_by(numbered, numbered), 6, note="an id twice")
    broker.ask(deleted_by(named, numbered), 6, note="by name and by id")


def grown(
    name: str,
    count: int,
    assignments: Sequence[Sequence[int]] | None = None,
    *,
    validate_only: bool = False,
) -> CreatePartitionsRequest:
    return CreatePartitionsRequest(
        topics=[
            CreatePartitionsTopic(
                name=name,
                count=count,
                assignments=None
                if assignments is None
                else [CreatePartitionsAssignment(broker_ids=it) for it in assignments],
            )
        ],
        timeout_ms=5000,
        validate_only=validate_only,
    )


@conversation
def partitions_are_added(broker: Transcript) -> None:
    topic = broker.topic()
    for version in range(4):
        count = version + 2
        broker.ask(grown(topic.name, count, validate_only=True), version, note="validate only")
        broker.ask(grown(topic.name, count), version)
        broker.until_ready(topic.name, count)
        broker.ask(grown(topic.name, count), version, note="as many as there are")
        broker.ask(grown(topic.name, 1), version, note="fewer")


@conversation
def partitions_that_cannot_be_added(broker: Transcript) -> None:
    topic = broker.topic()
    for note, request in {
        "unknown": grown("no-such-topic", 3),
        "a bad name": grown("a b", 3),
        "no name": grown("", 3),
        "none": grown(topic.name, 0),
        "negative": grown(topic.name, -1),
        "fewer assignments": grown(topic.name, 3, [[1]]),
        "more assignments": grown(topic.name, 2, [[1], [1]]),
        "no assignments": grown(topic.name, 2, []),
        "an empty assignment": grown(topic.name, 2, [[]]),
        "an unknown broker": grown(topic.name, 2, [[99]]),
        "a broker twice": grown(topic.name, 2, [[1, 1]]),
        "good": grown(topic.name, 2, [[1]]),
    }.items():
        broker.ask(request, 3, note=note)
    same = grown(topic.name, 5)
    broker.ask(same.replace(topics=[*same.topics, *same.topics]), 3, note="the same twice")
