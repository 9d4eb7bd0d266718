"""The command that shows groups with their members and what is assigned to each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pykbroker.cli.cluster_command import cluster_command
from pykbroker.cli.failure import RefusedEach
from pykbroker.cli.groups.description import describe_group
from pykbroker.cli.output import print_json, table
from pykbroker.client.errors import ApiError

if TYPE_CHECKING:
    from argparse import Namespace

    from pykbroker.cli.groups.description import GroupDescription, GroupMember
    from pykbroker.client.cluster_client import ClusterClient
    from pykbroker_protocol.consumer_protocol import PartitionsByTopic

MEMBER_HEADINGS = ("MEMBER", "INSTANCE", "CLIENT", "HOST", "ASSIGNMENT")


@cluster_command
async def describe(options: Namespace, client: ClusterClient) -> None:
    found, refusals = [], []
    for group_id in options.names:
        try:
            found.append(group_document(await describe_group(client, group_id)))
        except ApiError as refused:
            refusals.append(f"{group_id}: {refused}")
    if options.json:
        print_json(found)
    elif found:
        print("\n\n".join(map(group_text, found)))
    if refusals:
        raise RefusedEach(refusals)


def group_document(group: GroupDescription) -> dict[str, Any]:
    return {
        "group": group.group_id,
        "state": group.state,
        "type": group.type,
        "protocol": group.protocol or None,
        "assignor": group.assignor or None,
        "epoch": group.epoch,
        "coordinator": group.coordinator,
        "members": [member_document(it) for it in sorted(group.members, key=member_order)],
    }


def member_order(member: GroupMember) -> tuple[str, str]:
    return member.client_id, member.member_id


def member_document(member: GroupMember) -> dict[str, Any]:
    return {
        "member": member.member_id,
        "instance": member.instance_id,
        "client": member.client_id,
        "host": host_text(member.host),
        "epoch": member.epoch,
        "topics": member.topics,
        "topic_regex": member.topic_regex,
        "assignment": shares_document(member.assignment),
        "target": shares_document(member.target),
    }


def shares_document(shares: PartitionsByTopic | None) -> list[dict[str, Any]] | None:
    if shares is None:
        return None
    return [{"topic": topic, "partitions": shares[topic]} for topic in sorted(shares)]


def host_text(host: str) -> str:
    """The address alone; Kafka's brokers write the name before it, with a slash between."""
    return host.rpartition("/")[2]


def group_text(group: dict[str, Any]) -> str:
    state = group["state"]
    if group["epoch"] is not None:
        state += f" at epoch {group['epoch']}"
    lines = [
        f"group        {group['group']}",
        f"state        {state}",
        f"type         {group['type']}, {group['protocol'] or 'no protocol'}",
        f"assignor     {group['assignor'] or '-'}",
        f"coordinator  {group['coordinator']}",
    ]
    if not group["members"]:
        return "\n".join((*lines, "members      -"))
    return "\n".join((*lines, table(MEMBER_HEADINGS, map(member_row, group["members"]))))


def member_row(member: dict[str, Any]) -> tuple[object, ...]:
    assigned = shares_text(member["assignment"])
    if member["target"] not in (None, member["assignment"]):
        assigned += f" -> {shares_text(member['target'])}"
    return member["member"], member["instance"], member["client"], member["host"], assigned


def shares_text(shares: list[dict[str, Any]] | None) -> str:
    """`trucks:0-3,7`, a topic after the other."""
    if shares is None:
        return "unreadable"
    return " ".join(f"{it['topic']}:{runs_text(it['partitions'])}" for it in shares) or "-"


def runs_text(numbers: list[int]) -> str:
    """Ascending numbers with the runs among them drawn together."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(str(it[0]) if len(it) == 1 else f"{it[0]}-{it[-1]}" for it in runs)
