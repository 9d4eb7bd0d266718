"""Explains the indexes beside a log segment, and checks what they promise about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pykbroker.cli.log_dump.batches import next_batch
from pykbroker.cli.log_dump.finding import Finding, damage
from pykbroker.cli.output import counted
from pykbroker.cli.record_format import time_text
from pykbroker_protocol.records.corrupt import CorruptBatch
from pykbroker_storage.formats import (
    OFFSET_INDEX_ENTRY,
    TIME_INDEX_ENTRY,
    TRANSACTION_INDEX_ENTRY,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO


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
            yield damage(f"offset {offset} at byte {position} does not ascend", **document)
        elif log.exists() and not is_batch_at(log, position, offset):
            yield damage(f"no batch with offset {offset} begins at byte {position}", **document)
        before = offset, position


def is_batch_at(log: Path, position: int, offset: int) -> bool:
    """Whether the index tells the truth about its log."""
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
        text = f"{time_text(timestamp)} ({timestamp}) until offset {offset}"
        document = {"timestamp": timestamp, "offset": offset}
        yield Finding(kind="entry", text=text, document=document)
        if timestamp < before[0] or offset < before[1]:
            yield damage(f"timestamp {timestamp} at offset {offset} does not ascend", **document)
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


def entries(path: Path, layout: Any) -> Iterator[Any]:
    """Every entry in use; of one that is cut off, and of unused ones at the end, a finding."""
    size = layout.sizeof()
    with path.open("rb") as file:
        for count, data in enumerate(pieces(file, size)):
            if len(data) < size:
                yield damage(f"the file ends within an entry, after {len(data)} of {size} bytes")
            elif not any(data):
                yield unused(path, size, count)
                return
            else:
                yield layout.parse(data)


def pieces(file: BinaryIO, size: int) -> Iterator[bytes]:
    while data := file.read(size):
        yield data


def unused(path: Path, size: int, used: int) -> Finding:
    """A file in use is longer than what is in it."""
    count = path.stat().st_size // size - used
    return Finding(
        kind="unused",
        text=f"room for {counted(count, 'entry', 'entries')}",
        document={"entries": count},
    )


def base_offset_of(path: Path) -> int:
    """The offset that a segment's files are named for."""
    digits = path.name.partition(".")[0]
    return int(digits) if digits.isdecimal() else 0
