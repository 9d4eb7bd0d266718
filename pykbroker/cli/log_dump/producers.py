"""Explains a snapshot of the producers that a partition remembers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from construct import ConstructError

from pykbroker.cli.log_dump.finding import Finding, damage
from pykbroker.cli.record_format import time_text
from pykbroker_protocol.records.crc32c import checksum
from pykbroker_storage.formats import PRODUCER_SNAPSHOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CRC_COVERS_FROM = 6
NO_OFFSET = -1


def explain_producers(path: Path) -> Iterator[Finding]:
    data = path.read_bytes()
    try:
        snapshot = PRODUCER_SNAPSHOT.parse(data)
    except ConstructError as reason:
        yield damage(f"it is no snapshot: {reason}".splitlines()[0])
        return
    if checksum(data[CRC_COVERS_FROM:]) != snapshot.crc:
        yield damage("its checksum is wrong")
    for entry in snapshot.producers:
        document = {
            "producer_id": entry.producer_id,
            "producer_epoch": entry.producer_epoch,
            "last_sequence": entry.last_sequence,
            "last_offset": entry.last_offset,
            "offset_delta": entry.offset_delta,
            "timestamp": entry.timestamp,
            "coordinator_epoch": entry.coordinator_epoch,
            "transaction_first_offset": entry.transaction_first_offset,
        }
        text = (
            f"producer {entry.producer_id} epoch {entry.producer_epoch}: last sequence "
            f"{entry.last_sequence} at offset {entry.last_offset}, {time_text(entry.timestamp)}"
        )
        if entry.transaction_first_offset != NO_OFFSET:
            text += f", in a transaction since offset {entry.transaction_first_offset}"
        yield Finding(kind="producer", text=text, document=document)
