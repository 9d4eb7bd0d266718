"""The commands `groups delete-offsets`, `groups delete` and `groups remove-member`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pykbroker.cli.cluster_command import cluster_command, error_line
from pykbroker.cli.failure import CannotBegin, raise_if_any
from pykbroker.cli.groups.description import describe_group
from pykbroker.cli.groups.selection import partitions_to_delete
from pykbroker.cli.output import print_json
from pykbroker.client.committed_offsets import committed_offsets
from pykbroker.client.committed_offsets import delete_offsets as send_delete_offsets
from pykbroker.client.coordinator import Coordinator
from pykbroker.client.errors import ApiError, error_of, only, raise_if_error
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from pykbroker_protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)

if TYPE_CHECKING:
    from argparse import Namespace

    from pykbroker.client.cluster_client import ClusterClient
    from pykbroker_protocol.messages.leave_group import MemberResponse


@cluster_command
async def delete_offsets(options: Namespace, client: ClusterClient) -> None:
    committed = await committed_offsets(client, options.group)
    partitions = partitions_to_delete(options, committed)
    codes = await send_delete_offsets(client, options.group, partitions)
    done = [partition for partition, code in codes.items() if code is ErrorCode.NONE]
    if options.json:
        print_json([{"topic": it.topic, "partition": it.partition} for it in done])
    else:
        for partition in done:
            print(f"{options.group}: offset of {partition} deleted")
    raise_if_any([f"{it}: {ApiError(code)}" for it, code in codes.items() if code])


@cluster_command
async def delete(options: Namespace, client: ClusterClient) -> None:
    codes = {group_id: await deleted(client, group_id) for group_id in options.names}
    done = [group_id for group_id, code in codes.items() if code is ErrorCode.NONE]
    if options.json:
        print_json([{"group": group_id} for group_id in done])
    else:
        for group_id in done:
            print(f"{group_id}: deleted")
    accepted = {ErrorCode.NONE}
    if options.if_exists:
        accepted.add(ErrorCode.GROUP_ID_NOT_FOUND)
    raise_if_any([f"{it}: {ApiError(code)}" for it, code in codes.items() if code not in accepted])


async def deleted(client: ClusterClient, group_id: str) -> ErrorCode:
    response = await Coordinator(client, group_id).request(
        DeleteGroupsRequest(groups_names=[group_id]),
        DeleteGroupsResponse,
        lambda response: only(response.results, "results").error_code,
    )
    return error_of(only(response.results, "results").error_code)


@cluster_command
async def remove_member(options: Namespace, client: ClusterClient) -> None:
    members = await members_to_remove(options, client)
    response = await Coordinator(client, options.group).request(
        LeaveGroupRequest(group_id=options.group, members=members),
        LeaveGroupResponse,
        lambda response: response.error_code,
    )
    raise_if_error(response.error_code)
    done = [member for member in response.members if not member.error_code]
    if options.json:
        print_json([removed_document(member) for member in done])
    else:
        for member in done:
            print(f"{options.group}: {name_of(member)} removed")
    raise_if_any(
        [error_line(name_of(it), it.error_code) for it in response.members if it.error_code]
    )


async def members_to_remove(options: Namespace, client: ClusterClient) -> list[MemberIdentity]:
    """Returns the members of the options, or all members of the group."""
    reason = options.reason
    if options.all:
        group = await describe_group(client, options.group)
        return [
            MemberIdentity(
                member_id=it.member_id, group_instance_id=it.instance_id or None, reason=reason
            )
            for it in group.members
        ]
    named = [MemberIdentity(member_id=it, reason=reason) for it in options.members]
    named += [MemberIdentity(group_instance_id=it, reason=reason) for it in options.instances]
    if not named:
        raise CannotBegin("specify at least one of --member, --instance, --all")
    return named


def removed_document(member: MemberResponse) -> dict[str, Any]:
    return {"member": member.member_id or None, "instance": member.group_instance_id or None}


def name_of(member: MemberResponse) -> str:
    return member.group_instance_id or member.member_id
