"""Explains the files beside a log segment: its indexes and producer snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from construct import ConstructError

from pykbroker.cli.log_dump.batches import next_batch
from pykbroker.cli.log_dump.finding import Finding, corruption
from pykbroker.cli.output import counted
from pykbroker.cli.record_format import time_text
from pykbroker_protocol.records.corrupt import CorruptBatch
from pykbroker_protocol.records.crc32c import checksum
from pykbroker_storage.formats import (
    OFFSET_INDEX_ENTRY,
    PRODUCER_SNAPSHOT,
    TIME_INDEX_ENTRY,
    TRANSACTION_INDEX_ENTRY,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO

PRODUCER_CRC_START = 6
NO_OFFSET = -1


def explain_offset_index(path: Path) -> Iterator[Finding]:
    base_offset = base_offset_of(path)
    log = path.with_name(path.name.replace(".index", ".log"))
    before = (-1, -1)
    for entry in entries(path, OFFSET_INDEX_ENTRY):
        if isinstance(entry, Finding):
            yield entry
            continue
        offset, position = base_offset + entry.relative_offset, entry.position
        document = {"offset": offset, "position": position}
        yield Finding(kind="entry", text=f"offset {offset} at byte {position}", document=document)
        if offset <= before[0] or position <= before[1]:
            yield corruption(
                f"offset {offset} at byte {position} is not above the previous entry", **document
            )
        elif log.exists() and not is_batch_at(log, position, offset):
            yield corruption(f"no batch with offset {offset} at byte {position}", **document)
        before = offset, position


def is_batch_at(log: Path, position: int, offset: int) -> bool:
    """Returns True if a batch at this position of the log contains the offset."""
    with log.open("rb") as file:
        file.seek(position)
        try:
            batch = next_batch(file)
        except CorruptBatch:
            return False
    return batch is not None and batch.base_offset <= offset <= batch.last_offset


def explain_time_index(path: Path) -> Iterator[Finding]:
    base_offset = base_offset_of(path)
    before = (-1, -1)
    for entry in entries(path, TIME_INDEX_ENTRY):
        if isinstance(entry, Finding):
            yield entry
            continue
        offset, timestamp = base_offset + entry.relative_offset, entry.timestamp
        text = f"{time_text(timestamp)} ({timestamp}) up to offset {offset}"
        document = {"timestamp": timestamp, "offset": offset}
        yield Finding(kind="entry", text=text, document=document)
        if timestamp < before[0] or offset < before[1]:
            yield corruption(
                f"timestamp {timestamp} at offset {offset} is not above the previous entry",
                **document,
            )
        before = timestamp, offset


def explain_aborted_transactions(path: Path) -> Iterator[Finding]:
    for entry in entries(path, TRANSACTION_INDEX_ENTRY):
        if isinstance(entry, Finding):
            yield entry
            continue
        document = {
            "producer_id": entry.producer_id,
            "first_offset": entry.first_offset,
            "last_offset": entry.last_offset,
            "last_stable_offset": entry.last_stable_offset,
        }
        text = (
            f"producer {entry.producer_id} aborted {entry.first_offset}..{entry.last_offset}, "
            f"last stable offset {entry.last_stable_offset}"
        )
        yield Finding(kind="aborted transaction", text=text, document=document)


def explain_producer_snapshot(path: Path) -> Iterator[Finding]:
    data = path.read_bytes()
    try:
        snapshot = PRODUCER_SNAPSHOT.parse(data)
    except ConstructError as reason:
        yield corruption(f"invalid producer snapshot: {reason}".splitlines()[0])
        return
    if checksum(data[PRODUCER_CRC_START:]) != snapshot.crc:
        yield corruption("CRC mismatch")
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
            text += f", open transaction from offset {entry.transaction_first_offset}"
        yield Finding(kind="producer", text=text, document=document)


def entries(path: Path, layout: Any) -> Iterator[Any]:
    """Yields the used entries; yields a Finding for a truncated entry and for unused space."""
    size = layout.sizeof()
    with path.open("rb") as file:
        for count, data in enumerate(chunks(file, size)):
            if len(data) < size:
                yield corruption(f"last entry is truncated: {len(data)} of {size} bytes")
            elif not any(data):
                yield unused_entries(path, size, count)
                return
            else:
                yield layout.parse(data)


def chunks(file: BinaryIO, size: int) -> Iterator[bytes]:
    while data := file.read(size):
        yield data


def unused_entries(path: Path, size: int, used: int) -> Finding:
    """Describes preallocated space: the index of an active segment is longer than its entries."""
    count = path.stat().st_size // size - used
    return Finding(
        kind="unused",
        text=f"unused: {counted(count, 'entry', 'entries')}",
        document={"entries": count},
    )


def base_offset_of(path: Path) -> int:
    """Returns the base offset in the name of a segment file, 0 for other names."""
    digits = path.name.partition(".")[0]
    return int(digits) if digits.isdecimal() else 0
