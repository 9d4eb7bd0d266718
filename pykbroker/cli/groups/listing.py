"""The command that lists groups: every broker is asked for those that it coordinates."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from pykbroker.cli.asking import asks_the_cluster
from pykbroker.cli.groups.coordinator import PATIENCE_S
from pykbroker.cli.output import print_json, table
from pykbroker.cli.refusals import error_of, raise_if_refused
from pykbroker.cli.topic_lookup import BACKOFF_S
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from pykbroker.cli.client import Client

HEADINGS = ("GROUP", "STATE", "TYPE", "PROTOCOL", "COORDINATOR")


@asks_the_cluster
async def list_all(options: Namespace, client: Client) -> None:
    groups = await listed_groups(client, states=options.states, types=options.types)
    if options.names:
        for group in groups:
            print(group["group"])
    elif options.json:
        print_json(groups)
    else:
        print(table(HEADINGS, [tuple(group.values()) for group in groups]))


async def listed_groups(
    client: Client, *, states: Sequence[str] = (), types: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Every group of the cluster in the order of names, or those of some states and types."""
    request = ListGroupsRequest(states_filter=states, types_filter=types)
    metadata = await client.metadata()
    groups = [
        {
            "group": group.group_id,
            "state": group.group_state or None,
            "type": group.group_type or None,
            "protocol": group.protocol_type or None,
            "coordinator": broker.node_id,
        }
        for broker in metadata.brokers
        for group in (await asked_groups(client, request, broker.node_id)).groups
    ]
    return sorted(groups, key=lambda group: str(group["group"]))


async def asked_groups(
    client: Client, request: ListGroupsRequest, node_id: int
) -> ListGroupsResponse:
    """The groups of one broker, as soon as it has read what it knows of them."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        response = await client.ask(request, ListGroupsResponse, node_id=node_id)
        is_loading = error_of(response.error_code) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        if not is_loading or time.monotonic() > deadline:
            raise_if_refused(response.error_code)
            return response
        await asyncio.sleep(BACKOFF_S)
