"""The command `transactions list`: collects the transactional ids of all coordinators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pykbroker.cli.cluster_command import cluster_command
from pykbroker.cli.output import print_json, table
from pykbroker.client.coordinator import responses_of_coordinators
from pykbroker_protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)

if TYPE_CHECKING:
    from argparse import Namespace

    from pykbroker.client.cluster_client import ClusterClient

HEADINGS: Final = ("TRANSACTIONAL ID", "STATE", "PRODUCER ID", "COORDINATOR")
ANY_DURATION: Final = -1


@cluster_command
async def list_all(options: Namespace, client: ClusterClient) -> None:
    request = ListTransactionsRequest(
        state_filters=options.states,
        producer_id_filters=options.producer_ids,
        duration_filter=ANY_DURATION if options.duration_ms is None else options.duration_ms,
        transactional_id_pattern=options.pattern,
    )
    transactions = await listed_transactions(client, request)
    if options.names:
        for it in transactions:
            print(it["transactional_id"])
    elif options.json:
        print_json(transactions)
    else:
        print(table(HEADINGS, [tuple(it.values()) for it in transactions]))


async def listed_transactions(
    client: ClusterClient, request: ListTransactionsRequest
) -> list[dict[str, Any]]:
    """Returns the transactions of all brokers, sorted by transactional id."""
    responses = await responses_of_coordinators(
        client, request, ListTransactionsResponse, lambda it: it.error_code
    )
    transactions = [
        {
            "transactional_id": it.transactional_id,
            "state": it.transaction_state,
            "producer_id": it.producer_id,
            "coordinator": node_id,
        }
        for node_id, response in responses.items()
        for it in response.transaction_states
    ]
    return sorted(transactions, key=lambda it: str(it["transactional_id"]))
