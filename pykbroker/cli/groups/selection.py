"""Selects the partitions of commands that change committed offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.cli.failure import CommandFailed
from pykbroker.cli.offset_specs import chosen_partitions
from pykbroker.client.committed_offsets import TopicPartition

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Collection

    from pykbroker.client.cluster_client import ClusterClient


async def partitions_to_reset(
    options: Namespace, client: ClusterClient, committed: Collection[TopicPartition]
) -> list[TopicPartition]:
    """Returns the given partitions of existing topics, or all with a committed offset."""
    if options.all_topics:
        return not_empty(committed)
    return sorted(
        {
            TopicPartition(choice.name, partition)
            for choice in options.topics
            for partition in chosen_partitions(choice.partitions, await client.topic(choice.name))
        }
    )


def partitions_to_delete(
    options: Namespace, committed: Collection[TopicPartition]
) -> list[TopicPartition]:
    """Returns the given partitions, or all with a committed offset, also of deleted topics."""
    if options.all_topics:
        return not_empty(committed)
    partitions: set[TopicPartition] = set()
    for choice in options.topics:
        chosen = {TopicPartition(choice.name, partition) for partition in choice.partitions}
        chosen = chosen or {it for it in committed if it.topic == choice.name}
        if not chosen:
            raise CommandFailed(f"no committed offsets for topic {choice.name}")
        partitions |= chosen
    return sorted(partitions)


def not_empty(committed: Collection[TopicPartition]) -> list[TopicPartition]:
    if not committed:
        raise CommandFailed("no committed offsets")
    return sorted(committed)
