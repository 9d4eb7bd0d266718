"""The command `groups describe`: shows groups, their members and assignments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pykbroker.cli.cluster_command import cluster_command
from pykbroker.cli.failure import raise_if_any
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
    found, errors = [], []
    for group_id in options.names:
        try:
            found.append(group_document(await describe_group(client, group_id)))
        except ApiError as error:
            errors.append(f"{group_id}: {error}")
    if options.json:
        print_json(found)
    elif found:
        print("\n\n".join(map(group_text, found)))
    raise_if_any(errors)


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
    """Returns the address without the host name, which brokers write as `name/address`."""
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
    """Formats assignments as `trucks:0-3,7 ships:0`."""
    if shares is None:
        return "unreadable"
    return " ".join(f"{it['topic']}:{runs_text(it['partitions'])}" for it in shares) or "-"


def runs_text(numbers: list[int]) -> str:
    """Formats ascending numbers as `0-3,7`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(str(it[0]) if len(it) == 1 else f"{it[0]}-{it[-1]}" for it in runs)
