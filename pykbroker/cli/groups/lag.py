"""The command `groups lag`: shows the lag of groups by partition, member or client."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any, Final

from pykbroker.cli.cluster_command import cluster_command
from pykbroker.cli.failure import raise_if_any
from pykbroker.cli.groups.describe import host_text
from pykbroker.cli.groups.description import describe_group
from pykbroker.cli.groups.list_groups import listed_groups
from pykbroker.cli.output import print_json, table
from pykbroker.client.committed_offsets import TopicPartition, by_topic, committed_offsets
from pykbroker.client.errors import ApiError
from pykbroker.client.log_offsets import LATEST, log_offsets
from pykbroker_protocol.errors import ErrorCode

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable

    from pykbroker.cli.groups.description import GroupDescription, GroupMember
    from pykbroker.client.cluster_client import ClusterClient
    from pykbroker.client.committed_offsets import Committed

# Groups of other types have no committed offsets.
TYPES_WITH_OFFSETS: Final = ("classic", "consumer")
COLUMNS: Final = {
    "partition": {
        "TOPIC": "topic",
        "PARTITION": "partition",
        "COMMITTED": "committed_offset",
        "END": "end_offset",
        "LAG": "lag",
        "MEMBER": "member",
        "CLIENT": "client",
        "HOST": "host",
    },
    "member": {
        "MEMBER": "member",
        "INSTANCE": "instance",
        "CLIENT": "client",
        "HOST": "host",
        "PARTITIONS": "partitions",
        "LAG": "lag",
    },
    "client": {
        "CLIENT": "client",
        "MEMBERS": "members",
        "PARTITIONS": "partitions",
        "LAG": "lag",
    },
}


@cluster_command
async def lag(options: Namespace, client: ClusterClient) -> None:
    while True:
        await show_lag(options, client)
        sys.stdout.flush()
        if not options.follow:
            return
        await asyncio.sleep(options.interval_seconds)
        if not options.json:
            print()


async def show_lag(options: Namespace, client: ClusterClient) -> None:
    documents, errors = [], []
    for group_id in options.names or await groups_with_offsets(client):
        try:
            documents.append(await lag_document(client, group_id))
        except ApiError as error:
            is_deleted = error.code is ErrorCode.GROUP_ID_NOT_FOUND and not options.names
            if not is_deleted:  # since it was listed
                errors.append(f"{group_id}: {error}")
    if options.json:
        print_json(documents)
    elif documents:
        print("\n\n".join(lag_text(it, options.by) for it in documents))
    raise_if_any(errors)


async def groups_with_offsets(client: ClusterClient) -> list[str]:
    return [it["group"] for it in await listed_groups(client, types=TYPES_WITH_OFFSETS)]


async def lag_document(client: ClusterClient, group_id: str) -> dict[str, Any]:
    group = await describe_group(client, group_id)
    committed = await committed_offsets(client, group_id)
    owners = owners_of(group)
    ends = await end_offsets(client, committed.keys() | owners.keys())
    partitions = [partition_document(it, committed, ends, owners.get(it)) for it in sorted(ends)]
    members = [member_document(it, partitions) for it in group.members]
    return {
        "group": group_id,
        "state": group.state,
        "lag": summed(partitions),
        "partitions": partitions,
        "members": members,
        "clients": client_documents(members),
    }


def owners_of(group: GroupDescription) -> dict[TopicPartition, GroupMember]:
    return {
        TopicPartition(topic, partition): member
        for member in group.members
        for topic, partitions in (member.assignment or {}).items()
        for partition in partitions
    }


async def end_offsets(
    client: ClusterClient, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int | None]:
    """Returns the end offsets; None for a partition that has no leader or does not exist."""
    ends: dict[TopicPartition, int | None] = {}
    for topic, of_topic in by_topic(partitions).items():
        found = await topic_ends(client, topic, {it.partition for it in of_topic})
        ends.update((it, found.get(it.partition)) for it in of_topic)
    return ends


async def topic_ends(client: ClusterClient, topic: str, partitions: set[int]) -> dict[int, int]:
    try:
        found = await client.topic(topic)
    except ApiError as error:
        if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return {}
        raise
    return await log_offsets(client, found, LATEST, partitions=partitions)


def partition_document(
    partition: TopicPartition,
    committed: dict[TopicPartition, Committed],
    ends: dict[TopicPartition, int | None],
    owner: GroupMember | None,
) -> dict[str, Any]:
    read, end = committed.get(partition), ends[partition]
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "committed_offset": read and read.offset,
        "end_offset": end,
        "lag": end - read.offset if read is not None and end is not None else None,
        "leader_epoch": read.leader_epoch if read and read.leader_epoch >= 0 else None,
        "metadata": read and read.metadata,
        "member": owner and owner.member_id,
        "instance": owner and owner.instance_id,
        "client": owner and owner.client_id,
        "host": owner and host_text(owner.host),
    }


def member_document(member: GroupMember, partitions: list[dict[str, Any]]) -> dict[str, Any]:
    own = [it for it in partitions if it["member"] == member.member_id]
    return {
        "member": member.member_id,
        "instance": member.instance_id,
        "client": member.client_id,
        "host": host_text(member.host),
        "partitions": len(own),
        "lag": summed(own),
    }


def client_documents(members: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the sums of members with the same client id."""
    by_client: dict[str, list[dict[str, Any]]] = {}
    for member in members:
        by_client.setdefault(member["client"], []).append(member)
    return [
        {
            "client": client,
            "members": len(own),
            "partitions": sum(it["partitions"] for it in own),
            "lag": summed(own),
        }
        for client, own in sorted(by_client.items())
    ]


def summed(documents: Iterable[dict[str, Any]]) -> int:
    """Returns the total lag; partitions without a committed offset count as 0."""
    return sum(it["lag"] or 0 for it in documents)


def lag_text(group: dict[str, Any], by: str) -> str:
    columns = COLUMNS[by]
    rows = [tuple(row[name] for name in columns.values()) for row in group[f"{by}s"]]
    head = f"group {group['group']}, {group['state']}, lag {group['lag']}"
    return f"{head}\n{table(tuple(columns), rows)}"
