"""Which partitions a command that changes committed offsets is about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.cli.failure import CommandFailed
from pykbroker.cli.offset_specs import chosen_partitions
from pykbroker.client.committed_offsets import TopicPartition

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Collection

    from pykbroker.client.cluster_client import ClusterClient


async def places_to_move(
    options: Namespace, client: ClusterClient, committed: Collection[TopicPartition]
) -> list[TopicPartition]:
    """The partitions that are named, of topics that exist, or all that the group has read."""
    if options.all_topics:
        return some(committed)
    return sorted(
        {
            TopicPartition(choice.name, partition)
            for choice in options.topics
            for partition in chosen_partitions(choice.partitions, await client.topic(choice.name))
        }
    )


def places_to_forget(
    options: Namespace, committed: Collection[TopicPartition]
) -> list[TopicPartition]:
    """The partitions that are named, or all of a topic that the group has read."""
    if options.all_topics:
        return some(committed)
    places: set[TopicPartition] = set()
    for choice in options.topics:
        named = {TopicPartition(choice.name, partition) for partition in choice.partitions}
        named = named or {it for it in committed if it.topic == choice.name}
        if not named:
            raise CommandFailed(f"the group has committed no offset for {choice.name}")
        places |= named
    return sorted(places)


def some(committed: Collection[TopicPartition]) -> list[TopicPartition]:
    if not committed:
        raise CommandFailed("the group has committed no offsets")
    return sorted(committed)
