"""Fetches a snapshot of the metadata from the leader, in parts, and installs it when complete."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pykbroker.client.errors import ConnectionFailed
from pykbroker.membership.quorum_fetch import (
    AnotherLeader,
    Position,
    Retry,
    WrongCluster,
    snapshot_part_in,
    snapshot_request,
)
from pykbroker.metadata_log.snapshot_files import install_snapshot, read_unfinished, write_part
from pykbroker_protocol.messages.fetch_snapshot import FetchSnapshotResponse

if TYPE_CHECKING:
    from pykbroker.client.broker_connection import BrokerConnection
    from pykbroker.membership.observer_log import ObserverLog
    from pykbroker.metadata.snapshot import SnapshotName
    from pykbroker_protocol.messages.fetch_snapshot import PartitionSnapshotPart


async def fetch_snapshot(
    connection: BrokerConnection, position: Position, name: SnapshotName, log: ObserverLog
) -> None:
    """Installs a snapshot of the leader next to the log, unless it is there.

    Raises ClientError, OSError, or CorruptBatch for a wrong checksum or a missing footer.
    """
    filesystem, directory = log.filesystem, log.log.directory
    if name == log.newest_snapshot():
        return
    received, size = 0, 1
    while received < size:
        part = await _part(connection, position, name, received)
        data = part.unaligned_records
        await asyncio.to_thread(write_part, filesystem, directory, name, received, data)
        received, size = received + len(data), part.size
    await asyncio.to_thread(_check_and_install, log, name)


async def _part(
    connection: BrokerConnection, position: Position, name: SnapshotName, offset: int
) -> PartitionSnapshotPart:
    request = snapshot_request(position, name, offset)
    part = snapshot_part_in(await connection.request(request, FetchSnapshotResponse), name, offset)
    match part:
        case AnotherLeader(reason) | Retry(reason):
            raise ConnectionFailed(f"{connection.address} answered {reason}")
        case WrongCluster():
            raise ConnectionFailed(f"{connection.address} belongs to another cluster")
    return part


def _check_and_install(log: ObserverLog, name: SnapshotName) -> None:
    next(read_unfinished(log.filesystem, log.log.directory, name), None)
    install_snapshot(log.filesystem, log.log.directory, name)
