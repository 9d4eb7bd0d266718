"""The command `transactions describe`: shows state, producer and partitions of transactions."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from pykbroker.cli.cluster_command import cluster_command
from pykbroker.cli.failure import raise_if_any
from pykbroker.cli.groups.describe import shares_text
from pykbroker.cli.output import print_json
from pykbroker.cli.record_format import time_text
from pykbroker.client.coordinator import Coordinator, CoordinatorType
from pykbroker.client.errors import ApiError, only, raise_if_error
from pykbroker_protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)

if TYPE_CHECKING:
    from argparse import Namespace

    from pykbroker.client.cluster_client import ClusterClient


@cluster_command
async def describe(options: Namespace, client: ClusterClient) -> None:
    found, errors = [], []
    for transactional_id in options.names:
        try:
            found.append(await describe_transaction(client, transactional_id))
        except ApiError as error:
            errors.append(f"{transactional_id}: {error}")
    if options.json:
        print_json(found)
    elif found:
        print("\n\n".join(map(transaction_text, found)))
    raise_if_any(errors)


async def describe_transaction(client: ClusterClient, transactional_id: str) -> dict[str, Any]:
    coordinator = Coordinator(client, transactional_id, CoordinatorType.TRANSACTION)
    response = await coordinator.request(
        DescribeTransactionsRequest(transactional_ids=[transactional_id]),
        DescribeTransactionsResponse,
        lambda response: only(response.transaction_states, "transactions").error_code,
    )
    found = only(response.transaction_states, "transactions")
    raise_if_error(found.error_code)
    started_ms = found.transaction_start_time_ms
    return {
        "transactional_id": found.transactional_id,
        "state": found.transaction_state,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "timeout_ms": found.transaction_timeout_ms,
        "started": started_ms if started_ms >= 0 else None,
        "coordinator": await coordinator.node_id(),
        "partitions": [
            {"topic": it.topic, "partitions": sorted(it.partitions)}
            for it in sorted(found.topics, key=lambda it: it.topic)
        ],
    }


def transaction_text(transaction: dict[str, Any]) -> str:
    producer = f"{transaction['producer_id']}, epoch {transaction['producer_epoch']}"
    return "\n".join(
        (
            f"transactional id  {transaction['transactional_id']}",
            f"state             {transaction['state']}",
            f"producer          {producer}",
            f"timeout           {transaction['timeout_ms']} ms",
            f"started           {started_text(transaction['started'])}",
            f"coordinator       {transaction['coordinator']}",
            f"partitions        {shares_text(transaction['partitions'])}",
        )
    )


def started_text(started_ms: int | None) -> str:
    if started_ms is None:
        return "-"
    seconds = max(0.0, time.time() - started_ms / 1000)
    return f"{time_text(started_ms)}, {seconds:.0f} s ago"
