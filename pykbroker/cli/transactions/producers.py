"""The command `transactions describe-producers`: requests the active producers of partitions."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from pykbroker.cli.cluster_command import cluster_command
from pykbroker.cli.offset_specs import chosen_partitions
from pykbroker.cli.output import print_json, table
from pykbroker.cli.record_format import time_text
from pykbroker.client.errors import ApiError, error_of, only
from pykbroker_protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    ProducerState,
    TopicRequest,
)

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable

    from pykbroker.cli.command_line.values import TopicChoice
    from pykbroker.client.cluster_client import ClusterClient

    Document = dict[str, Any]

HEADINGS: Final = (
    "TOPIC",
    "PARTITION",
    "PRODUCER ID",
    "EPOCH",
    "COORDINATOR EPOCH",
    "LAST SEQUENCE",
    "LAST WRITTEN",
    "TRANSACTION START",
)


@cluster_command
async def describe_producers(options: Namespace, client: ClusterClient) -> None:
    found = await active_producers(client, options.topics)
    print_producers(found, as_json=options.json)


def print_producers(found: list[Document], *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    rows = (it | {"last_timestamp": timestamp_text(it["last_timestamp"])} for it in found)
    print(table(HEADINGS, [tuple(row.values()) for row in rows]))


def timestamp_text(timestamp_ms: int | None) -> str | None:
    return None if timestamp_ms is None else time_text(timestamp_ms)


async def active_producers(client: ClusterClient, choices: Iterable[TopicChoice]) -> list[Document]:
    """Returns the active producers of these partitions, sorted by partition."""
    found: list[Document] = []
    for choice in choices:
        for leader, indexes in (await partitions_by_leader(client, choice)).items():
            found += await request_producers(client, choice.name, indexes, leader)
    return in_order(found)


def in_order(producers: Iterable[Document]) -> list[Document]:
    return sorted(producers, key=lambda it: (it["topic"], it["partition"], it["producer_id"]))


async def partitions_by_leader(client: ClusterClient, choice: TopicChoice) -> dict[int, list[int]]:
    topic = await client.topic(choice.name)
    chosen = chosen_partitions(choice.partitions, topic)
    by_leader = defaultdict(list)
    for partition in topic.partitions:
        if partition.partition_index in chosen:
            by_leader[partition.leader_id].append(partition.partition_index)
    return by_leader


async def request_producers(
    client: ClusterClient, topic: str, partitions: list[int], leader: int
) -> list[Document]:
    request = DescribeProducersRequest(
        topics=[TopicRequest(name=topic, partition_indexes=partitions)]
    )
    response = await client.request(request, DescribeProducersResponse, node_id=leader)
    found = []
    for partition in only(response.topics, "topics").partitions:
        if partition.error_code:
            text = f"{topic}-{partition.partition_index}: {partition.error_message or ''}"
            raise ApiError(error_of(partition.error_code), text.rstrip(": "))
        found += [
            producer_document(topic, partition.partition_index, it)
            for it in partition.active_producers
        ]
    return found


def producer_document(topic: str, partition: int, producer: ProducerState) -> Document:
    return {
        "topic": topic,
        "partition": partition,
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
        "coordinator_epoch": known(producer.coordinator_epoch),
        "last_sequence": known(producer.last_sequence),
        "last_timestamp": known(producer.last_timestamp),
        "start_offset": known(producer.current_txn_start_offset),
    }


def known(number: int) -> int | None:
    """Returns None for -1, which stands for an unknown value."""
    return None if number < 0 else number
