"""CreateTopics requests of a broker, and the outcomes in their responses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.client.errors import error_of
from pykbroker_protocol.errors import ErrorCode, Refusal
from pykbroker_protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pykbroker.controller_access import NewTopic
    from pykbroker_protocol.messages.create_topics import (
        CreatableTopicResult,
        CreateTopicsResponse,
    )


def create_topics_request(
    topics: Sequence[NewTopic], *, timeout_ms: int, validate_only: bool = False
) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[creatable_topic(it) for it in topics],
        timeout_ms=timeout_ms,
        validate_only=validate_only,
    )


def creatable_topic(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=replicas)
            for index, replicas in topic.assigned()
        ],
        configs=[
            CreatableTopicConfig(name=name, value=value)
            for name, value in topic.configuration.items()
        ],
    )


def outcomes_of(
    topics: Sequence[NewTopic], response: CreateTopicsResponse
) -> list[CreatableTopicResult | Refusal]:
    """Returns the outcomes in the order of the request; the response can have another order."""
    results = {it.name: it for it in response.topics}
    missing = Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, "The response does not contain the topic.")
    return [
        missing
        if (result := results.get(topic.name)) is None
        else Refusal(error_of(result.error_code), result.error_message)
        if result.error_code
        else result
        for topic in topics
    ]
