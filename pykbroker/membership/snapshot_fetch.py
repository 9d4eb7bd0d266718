"""Fetches a snapshot of the metadata from the leader, in parts, and installs it when complete."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from pykbroker.client.errors import ClientError
from pykbroker.membership.quorum_fetch import (
    AnotherLeader,
    Position,
    Retry,
    WrongCluster,
    snapshot_part_in,
    snapshot_request,
)
from pykbroker.metadata_log.metadata_log import UNREADABLE
from pykbroker.metadata_log.snapshot_files import (
    install_snapshot,
    read_unfinished,
    write_part,
)
from pykbroker_protocol.messages.fetch_snapshot import FetchSnapshotResponse

if TYPE_CHECKING:
    from pykbroker.client.broker_connection import BrokerConnection
    from pykbroker.membership.observer_log import ObserverLog
    from pykbroker.metadata.snapshot import SnapshotName


async def fetch_snapshot(
    connection: BrokerConnection, position: Position, name: SnapshotName, log: ObserverLog
) -> str | None:
    """Fetches and installs a snapshot; returns the reason if that failed."""
    if name == log.newest_snapshot():
        return None
    received = 0
    try:
        while True:
            response = await connection.request(
                snapshot_request(position, name, received), FetchSnapshotResponse
            )
            part = snapshot_part_in(response, name, received)
            match part:
                case AnotherLeader(reason) | Retry(reason):
                    return reason
                case WrongCluster():
                    return "another cluster"
            await asyncio.to_thread(
                partial(
                    write_part,
                    log.filesystem,
                    log.log.directory,
                    name,
                    received,
                    part.unaligned_records,
                )
            )
            received += len(part.unaligned_records)
            if received == part.size:
                await asyncio.to_thread(_check_and_install, log, name)
                return None
    except (ClientError, OSError) as failure:
        return f"snapshot {name.file_name}: {failure}"
    except UNREADABLE as failure:
        return f"snapshot {name.file_name} is corrupt: {failure}"


def _check_and_install(log: ObserverLog, name: SnapshotName) -> None:
    """Blocking. Raises CorruptBatch for a wrong checksum or a missing footer."""
    next(read_unfinished(log.filesystem, log.log.directory, name), None)
    install_snapshot(log.filesystem, log.log.directory, name)
