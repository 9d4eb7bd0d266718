"""Makes a running broker as clean as after its start, and touches only what is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pykbroker.controller.configurations import ConfigurationReplacement
from pykbroker.internal_topics import is_internal
from pykbroker.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE
from pykbroker_protocol.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pykbroker.broker import Broker
    from pykbroker.controller.topics import NewTopic
    from pykbroker.metadata.image import TopicImage


GONE_ALREADY: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class NotClean(Exception):
    """Something is left of what was done before, and the broker says why."""


async def clear(broker: Broker, wanted: Sequence[NewTopic]) -> list[NewTopic]:
    """Takes away all but the wanted topics that are as new; returns those to be made.

    Groups and transactions live in internal topics and go with them. A topic that was used is
    made anew with another id, so that nobody takes it for the old one.
    """
    await restore_configurations(broker)
    topics = broker.image.topics
    as_wanted = {it.name: it for it in wanted}
    used = [
        name
        for name, topic in topics.items()
        if name not in as_wanted or is_used(broker, topic, as_wanted[name])
    ]
    if used:
        insist(used, await broker.controller.delete_topics(used))
    return [it for it in wanted if it.name not in topics]


async def restore_configurations(broker: Broker) -> None:
    """Those of brokers; a topic's go with the topic."""
    changed = [
        ConfigurationReplacement(resource_type=kind, name=name, values=())
        for (kind, name), values in broker.image.configurations.items()
        if kind == BROKER_RESOURCE and values
    ]
    if changed:
        names = [f"broker {it.name or 'default'}" for it in changed]
        insist(names, await broker.controller.replace_configurations(changed))


def insist(names: Iterable[str], outcomes: Iterable[object]) -> None:
    """What a client has deleted meanwhile is gone, too; any other refusal is raised."""
    for name, outcome in zip(names, outcomes, strict=True):
        if isinstance(outcome, Refusal) and outcome.code is not GONE_ALREADY:
            raise NotClean(f"{name} cannot be reset: {outcome.message or outcome.code.sentence}")


def is_used(broker: Broker, topic: TopicImage, wanted: NewTopic) -> bool:
    """Whether it is not as it was made: something was written, or it was altered or grown."""
    configuration = broker.image.configurations.get((TOPIC_RESOURCE, topic.name), {})
    if is_internal(topic.name) or configuration != wanted.configuration:
        return True
    if len(topic.partitions) != wanted.partitions:
        return True
    held = (broker.partitions.get(topic.name, it.index) for it in topic.partitions)
    return any(it is None or it.log.log_end_offset > 0 for it in held)
