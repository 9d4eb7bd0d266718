"""Which partitions a command that changes committed offsets is about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.cli.failure import CommandFailed
from pykbroker.cli.groups.committed import Place
from pykbroker.cli.places import chosen_partitions
from pykbroker.cli.topic_lookup import find_topic

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Collection

    from pykbroker.cli.client import Client


async def places_to_move(
    options: Namespace, client: Client, committed: Collection[Place]
) -> list[Place]:
    """The partitions that are named, of topics that exist, or all that the group has read."""
    if options.all_topics:
        return some(committed)
    return sorted(
        {
            Place(choice.name, partition)
            for choice in options.topics
            for partition in chosen_partitions(
                choice.partitions, await find_topic(client, choice.name)
            )
        }
    )


def places_to_forget(options: Namespace, committed: Collection[Place]) -> list[Place]:
    """The partitions that are named, or all of a topic that the group has read."""
    if options.all_topics:
        return some(committed)
    places: set[Place] = set()
    for choice in options.topics:
        named = {Place(choice.name, partition) for partition in choice.partitions}
        named = named or {it for it in committed if it.topic == choice.name}
        if not named:
            raise CommandFailed(f"the group has committed no offset for {choice.name}")
        places |= named
    return sorted(places)


def some(committed: Collection[Place]) -> list[Place]:
    if not committed:
        raise CommandFailed("the group has committed no offsets")
    return sorted(committed)
