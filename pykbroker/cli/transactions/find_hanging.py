"""The command `transactions find-hanging`: finds transactions that no coordinator will complete."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from pykbroker.cli.cluster_command import cluster_command
from pykbroker.cli.command_line.values import TopicChoice
from pykbroker.cli.failure import raise_if_any
from pykbroker.cli.transactions.describe import describe_transaction
from pykbroker.cli.transactions.list_transactions import listed_transactions
from pykbroker.cli.transactions.producers import (
    in_order,
    partitions_by_leader,
    print_producers,
    request_producers,
)
from pykbroker.client.errors import ApiError
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.list_transactions import ListTransactionsRequest

if TYPE_CHECKING:
    from argparse import Namespace

    from pykbroker.client.cluster_client import ClusterClient

    Document = dict[str, Any]


@cluster_command
async def find_hanging(options: Namespace, client: ClusterClient) -> None:
    producers, errors = await producers_and_errors(client, options.topics)
    latest_ms = time.time() * 1000 - options.duration_ms
    old = [
        it
        for it in producers
        if it["start_offset"] is not None and (it["last_timestamp"] or 0) < latest_ms
    ]
    known = await partitions_by_producer(client, {it["producer_id"] for it in old})
    hanging = [it for it in old if partition_of(it) not in known.get(it["producer_id"], ())]
    print_producers(hanging, as_json=options.json)
    raise_if_any(errors)


async def producers_and_errors(
    client: ClusterClient, choices: list[TopicChoice]
) -> tuple[list[Document], list[str]]:
    """Returns the active producers, and a line per partition whose producers are unknown.

    A topic that was deleted, or a partition without a leader, does not end the search.
    """
    found: list[Document] = []
    errors: list[str] = []
    for choice in choices or await all_topics(client):
        try:
            by_leader = await partitions_by_leader(client, choice)
        except ApiError as error:
            errors.append(f"{choice.name}: {error}")
            continue
        for leader, indexes in by_leader.items():
            try:
                found += await request_producers(client, choice.name, indexes, leader)
            except ApiError as error:
                partitions = ",".join(map(str, indexes))
                errors.append(f"{choice.name}:{partitions}: {error}")
    return in_order(found), errors


def partition_of(producer: Document) -> tuple[str, int]:
    return producer["topic"], producer["partition"]


async def all_topics(client: ClusterClient) -> list[TopicChoice]:
    metadata = await client.metadata(None)
    return [TopicChoice(it.name) for it in metadata.topics if it.name and it.partitions]


async def partitions_by_producer(
    client: ClusterClient, producer_ids: set[int]
) -> dict[int, set[tuple[str, int]]]:
    """Returns the partitions that coordinators list for transactions of these producers."""
    if not producer_ids:
        return {}
    request = ListTransactionsRequest(
        state_filters=(), producer_id_filters=tuple(sorted(producer_ids))
    )
    return {
        it["producer_id"]: await partitions_of_transaction(client, it["transactional_id"])
        for it in await listed_transactions(client, request)
    }


async def partitions_of_transaction(
    client: ClusterClient, transactional_id: str
) -> set[tuple[str, int]]:
    try:
        transaction = await describe_transaction(client, transactional_id)
    except ApiError as error:
        if error.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:  # deleted since it was listed
            return set()
        raise
    return {(it["topic"], index) for it in transaction["partitions"] for index in it["partitions"]}
