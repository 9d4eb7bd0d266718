"""The command that finds transactions which no coordinator will end."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from pykbroker.cli.cluster_command import cluster_command
from pykbroker.cli.command_line.values import TopicChoice
from pykbroker.cli.failure import RefusedEach
from pykbroker.cli.transactions.describing import described
from pykbroker.cli.transactions.listing import listed_transactions
from pykbroker.cli.transactions.producers import (
    asked_producers,
    in_order,
    partitions_by_leader,
    print_producers,
)
from pykbroker.client.errors import ApiError
from pykbroker_protocol.errors import ErrorCode
from pykbroker_protocol.messages.list_transactions import ListTransactionsRequest

if TYPE_CHECKING:
    from argparse import Namespace

    from pykbroker.client.cluster_client import ClusterClient

    Document = dict[str, Any]
    Touched = dict[int, set[tuple[str, int]]]


@cluster_command
async def find_hanging(options: Namespace, client: ClusterClient) -> None:
    producers, refusals = await reachable_producers(client, options.topics)
    latest_ms = time.time() * 1000 - options.duration_ms
    old = [
        it
        for it in producers
        if it["start_offset"] is not None and (it["last_timestamp"] or 0) < latest_ms
    ]
    touched = await partitions_by_producer(client, {it["producer_id"] for it in old})
    hanging = [it for it in old if place(it) not in touched.get(it["producer_id"], ())]
    print_producers(hanging, as_json=options.json)
    if refusals:
        raise RefusedEach(refusals)


async def reachable_producers(
    client: ClusterClient, choices: list[TopicChoice]
) -> tuple[list[Document], list[str]]:
    """What is known of producers, and why it is not of those of some partitions.

    A topic that goes meanwhile, or a partition without a leader, does not end the search.
    """
    found: list[Document] = []
    refusals: list[str] = []
    for choice in choices or await all_topics(client):
        try:
            by_leader = await partitions_by_leader(client, choice)
        except ApiError as refused:
            refusals.append(f"{choice.name}: {refused}")
            continue
        for leader, indexes in by_leader.items():
            try:
                found += await asked_producers(client, choice.name, indexes, leader)
            except ApiError as refused:
                places = ",".join(map(str, indexes))
                refusals.append(f"{choice.name}:{places}: {refused}")
    return in_order(found), refusals


def place(producer: Document) -> tuple[str, int]:
    return producer["topic"], producer["partition"]


async def all_topics(client: ClusterClient) -> list[TopicChoice]:
    metadata = await client.metadata(None)
    return [TopicChoice(it.name) for it in metadata.topics if it.name and it.partitions]


async def partitions_by_producer(client: ClusterClient, producer_ids: set[int]) -> Touched:
    """What transactions of these producers have touched, as far as coordinators know."""
    if not producer_ids:
        return {}
    request = ListTransactionsRequest(
        state_filters=(), producer_id_filters=tuple(sorted(producer_ids))
    )
    touched: Touched = {}
    for listed in await listed_transactions(client, request):
        touched[listed["producer_id"]] = await touched_by(client, listed["transactional_id"])
    return touched


async def touched_by(client: ClusterClient, transactional_id: str) -> set[tuple[str, int]]:
    try:
        transaction = await described(client, transactional_id)
    except ApiError as refused:
        if refused.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:  # gone since it was listed
            return set()
        raise
    return {(it["topic"], index) for it in transaction["partitions"] for index in it["partitions"]}
