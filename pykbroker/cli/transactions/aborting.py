"""The command that ends a transaction in one partition, because nobody else will."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pykbroker.cli.cluster_command import cluster_command
from pykbroker.cli.failure import CommandFailed
from pykbroker.cli.output import print_json
from pykbroker.cli.transactions.producers import active_producers
from pykbroker.client.errors import raise_if_error
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
    (partition,) = options.place.partitions
    producer = await producer_at(client, options)
    topic = await client.topic(options.place.name)
    (leader,) = (it.leader_id for it in topic.partitions if it.partition_index == partition)
    response = await client.request(
        WriteTxnMarkersRequest(markers=[abort_marker(producer)]),
        WriteTxnMarkersResponse,
        node_id=leader,
    )
    raise_if_error(response.markers[0].topics[0].partitions[0].error_code)
    if options.json:
        print_json(producer)
        return
    print(
        f"{options.place.name}-{partition}: the transaction of producer "
        f"{producer['producer_id']} from offset {options.start_offset} on is aborted"
    )


async def producer_at(client: ClusterClient, options: Namespace) -> dict[str, Any]:
    """Whose transaction begins there."""
    for producer in await active_producers(client, [options.place]):
        if producer["start_offset"] == options.start_offset:
            return producer
    place = f"{options.place.name}-{options.place.partitions[0]}"
    raise CommandFailed(f"{place} has no open transaction that begins at {options.start_offset}")


def abort_marker(producer: dict[str, Any]) -> WritableTxnMarker:
    """In the epoch of the coordinator that the partition heard of last, so that it counts."""
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
