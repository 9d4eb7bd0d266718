"""The command `groups list`: collects the groups of all coordinators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pykbroker.cli.cluster_command import cluster_command
from pykbroker.cli.output import print_json, table
from pykbroker.client.coordinator import responses_of_coordinators
from pykbroker_protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from pykbroker.client.cluster_client import ClusterClient

HEADINGS = ("GROUP", "STATE", "TYPE", "PROTOCOL", "COORDINATOR")


@cluster_command
async def list_all(options: Namespace, client: ClusterClient) -> None:
    groups = await listed_groups(client, states=options.states, types=options.types)
    if options.names:
        for group in groups:
            print(group["group"])
    elif options.json:
        print_json(groups)
    else:
        print(table(HEADINGS, [tuple(group.values()) for group in groups]))


async def listed_groups(
    client: ClusterClient, *, states: Sequence[str] = (), types: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Returns the groups of all brokers, filtered by state and type, sorted by name."""
    request = ListGroupsRequest(states_filter=states, types_filter=types)
    responses = await responses_of_coordinators(
        client, request, ListGroupsResponse, lambda it: it.error_code
    )
    groups = [
        {
            "group": group.group_id,
            "state": group.group_state or None,
            "type": group.group_type or None,
            "protocol": group.protocol_type or None,
            "coordinator": node_id,
        }
        for node_id, response in responses.items()
        for group in response.groups
    ]
    return sorted(groups, key=lambda group: str(group["group"]))
