"""Resets a running broker to the state after its start. Unused topics are not recreated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pykbroker.controller_access import ConfigurationReplacement
from pykbroker.internal_topics import is_internal
from pykbroker.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE
from pykbroker_protocol.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pykbroker.broker import Broker
    from pykbroker.controller_access import NewTopic
    from pykbroker.metadata.image import TopicImage


ALREADY_DELETED: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class NotClean(Exception):
    """Raised if the broker rejects a step of the reset."""


async def clear(broker: Broker, requested: Sequence[NewTopic]) -> list[NewTopic]:
    """Deletes all topics except unused requested ones and returns the topics to create.

    Groups and transactions are deleted with their internal topics. A used topic is recreated with
    a new topic id, so that clients do not take it for the old one.
    """
    await restore_configurations(broker)
    topics = broker.image.topics
    by_name = {it.name: it for it in requested}
    used = [
        name
        for name, topic in topics.items()
        if name not in by_name or is_used(broker, topic, by_name[name])
    ]
    if used:
        raise_refusals(used, await broker.controller.delete_topics(used))
    return [it for it in requested if it.name not in topics]


async def restore_configurations(broker: Broker) -> None:
    """Removes dynamic configurations of brokers. Those of topics are deleted with the topic."""
    changed = [
        ConfigurationReplacement(resource_type=kind, name=name, values=())
        for (kind, name), values in broker.image.configurations.items()
        if kind == BROKER_RESOURCE and values
    ]
    if changed:
        names = [f"broker {it.name or 'default'}" for it in changed]
        raise_refusals(names, await broker.controller.replace_configurations(changed))


def raise_refusals(names: Iterable[str], outcomes: Iterable[object]) -> None:
    """Raises NotClean for a refusal, unless a client has deleted the topic already."""
    for name, outcome in zip(names, outcomes, strict=True):
        if isinstance(outcome, Refusal) and outcome.code is not ALREADY_DELETED:
            raise NotClean(f"{name} cannot be reset: {outcome.message or outcome.code.sentence}")


def is_used(broker: Broker, topic: TopicImage, requested: NewTopic) -> bool:
    """True if the topic has or had records, another configuration or another partition count."""
    configuration = broker.image.configurations.get((TOPIC_RESOURCE, topic.name), {})
    if is_internal(topic.name) or configuration != requested.configuration:
        return True
    if len(topic.partitions) != requested.partitions:
        return True
    held = (broker.partitions.get(topic.name, it.index) for it in topic.partitions)
    return any(it is None or it.log.log_end_offset > 0 for it in held)
