"""Validates topic creation and deletion and returns the metadata records."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pykbroker.controller.decision import Decision, bounded
from pykbroker.controller.new_partitions import (
    assigned_partitions,
    placed_partitions,
)
from pykbroker.controller_access import UNSET
from pykbroker.generators import run_to_end
from pykbroker.metadata.image import TOPIC_RESOURCE, ClusterImage, TopicImage
from pykbroker.metadata.replay import replay
from pykbroker.metadata.topic_names import (
    CLUSTER_METADATA_TOPIC,
    refuse_collision,
    refuse_name,
)
from pykbroker.slices import SLICE_ELEMENTS
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.late_dataclass import dataclass
from pykbroker_protocol.metadata.topics import ConfigRecord, RemoveTopicRecord, TopicRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pykbroker.controller.placement import Draw
    from pykbroker.controller_access import NewTopic
    from pykbroker.slices import Slices
    from pykbroker_protocol.message import Message

PARTITIONS_PER_REQUEST_MAX = 10_000
TOO_MANY_PARTITIONS = Refusal(
    ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRules:
    """Settings and random values that decisions on topics use."""

    default_partitions: int
    default_replication_factor: int
    refuse_configuration: Callable[[Mapping[str, str | None]], str | None]
    new_id: Callable[[], bytes]
    draw: Draw


def create_topics(
    image: ClusterImage, topics: Sequence[NewTopic], rules: TopicRules
) -> Slices[Decision[list[TopicImage | Refusal]]]:
    """Returns one outcome for each topic; a refused topic has no records."""
    if (yield from _asks_for_too_many_partitions(topics, rules)):
        return Decision((), [TOO_MANY_PARTITIONS] * len(topics))
    twice = _named_twice([topic.name for topic in topics])
    records: list[Message] = []
    outcomes: list[TopicImage | Refusal] = []
    left = SLICE_ELEMENTS
    for topic in topics:
        made = (
            Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            if topic.name in twice
            else (yield from _create_topic(image, topic, rules))
        )
        if isinstance(made, Refusal):
            outcomes.append(made)
        else:
            records += made
            outcomes.append(_topic_in(made))
            left -= 8 * len(made)  # its records are placed, created and replayed
        left -= 1
        if left < 0:
            left = SLICE_ELEMENTS
            yield
    return bounded(records, outcomes)


def _asks_for_too_many_partitions(topics: Sequence[NewTopic], rules: TopicRules) -> Slices[bool]:
    partitions = 0
    for count, topic in enumerate(topics):
        partitions += len(topic.assigned()) or _partitions_of(topic, rules)
        if partitions > PARTITIONS_PER_REQUEST_MAX:
            return True
        if count % SLICE_ELEMENTS == SLICE_ELEMENTS - 1:
            yield
    return False


def _create_topic(
    image: ClusterImage, topic: NewTopic, rules: TopicRules
) -> Slices[list[Message] | Refusal]:
    refusal = _refuse(image, topic, rules)
    if refusal is not None:
        return refusal
    topic_id = _unused_id(image, rules)
    if topic.assigned():
        partitions = _assigned(image, topic, topic_id)
    else:
        partitions = yield from _placed(image, topic, topic_id, rules)
    if isinstance(partitions, Refusal):
        return partitions
    configuration = [
        ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=topic.name, name=name, value=value)
        for name, value in topic.configuration.items()
    ]
    return [TopicRecord(name=topic.name, topic_id=topic_id), *configuration, *partitions]


def _refuse(image: ClusterImage, topic: NewTopic, rules: TopicRules) -> Refusal | None:
    refusal = refuse_name(topic.name)
    if refusal is not None:
        return refusal
    if topic.name == CLUSTER_METADATA_TOPIC:
        return Refusal(
            ErrorCode.INVALID_REQUEST,
            f"Creation of internal topic {CLUSTER_METADATA_TOPIC} is prohibited.",
        )
    if topic.name in image.topics:
        return Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic.name}' already exists.")
    refusal = refuse_collision(topic.name, image.unified_names)
    if refusal is not None:
        return refusal
    problem = rules.refuse_configuration(topic.configuration) if topic.configuration else None
    return Refusal(ErrorCode.INVALID_CONFIG, problem) if problem else None


def _assigned(image: ClusterImage, topic: NewTopic, topic_id: bytes) -> list[Message] | Refusal:
    if topic.replication_factor != UNSET:
        return Refusal(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, "
            "but replication factor was not set to -1.",
        )
    if topic.partitions != UNSET:
        return Refusal(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        )
    replicas: dict[int, Sequence[int]] = {}
    for index, brokers in topic.assigned():
        if index in replicas:
            return Refusal(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Found multiple manual partition assignments for partition {index}",
            )
        replicas[index] = brokers
    made = assigned_partitions(image, topic_id, sorted(replicas.items()), replicas_each=None)
    if not isinstance(made, Refusal) and sorted(replicas) != list(range(len(replicas))):
        return Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )
    return made


def _placed(
    image: ClusterImage, topic: NewTopic, topic_id: bytes, rules: TopicRules
) -> Slices[list[Message] | Refusal]:
    if topic.replication_factor < UNSET or topic.replication_factor == 0:
        return Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if topic.partitions < UNSET or topic.partitions == 0:
        return Refusal(
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        )
    replicas = topic.replication_factor
    return (
        yield from placed_partitions(
            image,
            topic_id,
            indexes=range(_partitions_of(topic, rules)),
            replicas=rules.default_replication_factor if replicas == UNSET else replicas,
            draw=rules.draw,
        )
    )


def delete_topics(
    image: ClusterImage, named: Sequence[str | bytes]
) -> Slices[Decision[list[TopicImage | Refusal]]]:
    """Finds each topic by its name or id."""
    twice = _named_twice(named)
    records: dict[bytes, Message] = {}
    outcomes: list[TopicImage | Refusal] = []
    for count, name in enumerate(named):
        if count % SLICE_ELEMENTS == SLICE_ELEMENTS - 1:
            yield
        outcome = _refuse_twice(name) if name in twice else _find(image, name)
        if isinstance(outcome, TopicImage):
            if outcome.id in records:  # given by name and by id
                outcome = _refuse_twice(name)
            else:
                records[outcome.id] = RemoveTopicRecord(topic_id=outcome.id)
        outcomes.append(outcome)
    return bounded([*records.values()], outcomes)


def _find(image: ClusterImage, name: str | bytes) -> TopicImage | Refusal:
    if isinstance(name, str):
        return image.topics.get(name) or Refusal(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
        )
    return image.topics_by_id.get(name) or Refusal(
        ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID."
    )


def _refuse_twice(name: str | bytes) -> Refusal:
    what = "name" if isinstance(name, str) else "id"
    return Refusal(ErrorCode.INVALID_REQUEST, f"Duplicate topic {what}.")


def _named_twice(names: Sequence[str | bytes]) -> set[str | bytes]:
    return {name for name, times in Counter(names).items() if times > 1}


def _partitions_of(topic: NewTopic, rules: TopicRules) -> int:
    return rules.default_partitions if topic.partitions == UNSET else topic.partitions


def _unused_id(image: ClusterImage, rules: TopicRules) -> bytes:
    while (topic_id := rules.new_id()) in image.topics_by_id:
        pass
    return topic_id


def _topic_in(records: Sequence[Message]) -> TopicImage:
    """Returns the topic that these records create."""
    image = ClusterImage(cluster_id="")
    delta = run_to_end(replay(image, records, last_offset=0))
    (topic,) = delta.topics.values()
    return topic
