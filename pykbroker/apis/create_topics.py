"""CreateTopics: creates topics and returns their partitions and configuration."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pykbroker.apis.slices import each
from pykbroker.controller_access import NewTopic
from pykbroker.settings import describe_topic
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.messages.create_topics import (
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from pykbroker.apis.node import Call
    from pykbroker.metadata.image import TopicImage
    from pykbroker_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest


CONFIGURATION_WEIGHT = 32
"""Elements that a topic counts for in a slice: its configuration is returned."""


async def handle(request: CreateTopicsRequest, call: Call) -> CreateTopicsResponse:
    counts = Counter([topic.name for topic in request.topics])
    once = [topic for topic in request.topics if counts[topic.name] == 1]
    outcomes = await call.node.controller.create_topics(
        await each(new_topic, once), validate_only=request.validate_only
    )
    results = await each(
        lambda it: result(*it, call),
        list(zip(once, outcomes, strict=True)),
        weight=CONFIGURATION_WEIGHT,
    )
    repeated = [name for name, count in counts.items() if count > 1]
    return CreateTopicsResponse(topics=[*await each(duplicate, repeated), *results])


def duplicate(name: str) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=name,
        error_code=ErrorCode.INVALID_REQUEST,
        error_message="Duplicate topic name.",
    )


def new_topic(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        name=topic.name,
        partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=[(it.partition_index, it.broker_ids) for it in topic.assignments],
        configuration={it.name: it.value for it in topic.configs},
    )


def result(
    topic: CreatableTopic, outcome: TopicImage | Refusal, call: Call
) -> CreatableTopicResult:
    if isinstance(outcome, Refusal):
        return CreatableTopicResult(
            name=topic.name, error_code=outcome.code, error_message=outcome.message
        )
    overrides = {it.name: it.value for it in topic.configs if it.value is not None}
    return CreatableTopicResult(
        name=topic.name,
        topic_id=outcome.id,
        error_code=ErrorCode.NONE,
        error_message=None,
        num_partitions=len(outcome.partitions),
        replication_factor=len(outcome.partitions[0].replicas),
        configs=configurations(overrides, call),
    )


def configurations(overrides: dict[str, str], call: Call) -> list[CreatableTopicConfigs]:
    return [
        CreatableTopicConfigs(
            name=it.name,
            value=it.value,
            read_only=it.is_read_only,
            config_source=it.source,
            is_sensitive=it.is_sensitive,
        )
        for it in describe_topic(call.node.settings, overrides)
    ]


def failed(request: CreateTopicsRequest, refusal: Refusal, _call: Call) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(
                name=it.name, error_code=refusal.code, error_message=refusal.message
            )
            for it in request.topics
        ]
    )
