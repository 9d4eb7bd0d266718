"""The command `transactions abort`: writes an abort marker to one partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pykbroker.cli.cluster_command import cluster_command
from pykbroker.cli.failure import CommandFailed
from pykbroker.cli.output import print_json
from pykbroker.cli.transactions.producers import active_producers
from pykbroker.client.errors import only, raise_if_error
from pykbroker_protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from argparse import Namespace

    from pykbroker.client.cluster_client import ClusterClient


@cluster_command
async def abort(options: Namespace, client: ClusterClient) -> None:
    (index,) = options.partition.partitions
    producer = await producer_at(client, options)
    topic = await client.topic(options.partition.name)
    (leader,) = (it.leader_id for it in topic.partitions if it.partition_index == index)
    response = await client.request(
        WriteTxnMarkersRequest(markers=[abort_marker(producer)]),
        WriteTxnMarkersResponse,
        node_id=leader,
    )
    marker = only(response.markers, "markers")
    result = only(only(marker.topics, "topics").partitions, "partitions")
    raise_if_error(result.error_code)
    if options.json:
        print_json(producer)
        return
    print(
        f"{options.partition.name}-{index}: aborted the transaction of producer "
        f"{producer['producer_id']} at offset {options.start_offset}"
    )


async def producer_at(client: ClusterClient, options: Namespace) -> dict[str, Any]:
    """Returns the producer whose open transaction begins at --start-offset."""
    for producer in await active_producers(client, [options.partition]):
        if producer["start_offset"] == options.start_offset:
            return producer
    partition = f"{options.partition.name}-{options.partition.partitions[0]}"
    raise CommandFailed(f"{partition} has no open transaction at offset {options.start_offset}")


def abort_marker(producer: dict[str, Any]) -> WritableTxnMarker:
    """Uses the latest coordinator epoch of the partition, because older ones are fenced."""
    return WritableTxnMarker(
        producer_id=producer["producer_id"],
        producer_epoch=producer["producer_epoch"],
        transaction_result=False,
        topics=[
            WritableTxnMarkerTopic(
                name=producer["topic"], partition_indexes=[producer["partition"]]
            )
        ],
        coordinator_epoch=producer["coordinator_epoch"] or 0,
    )
