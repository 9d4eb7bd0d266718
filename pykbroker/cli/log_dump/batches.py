"""Explains files of record batches: log segments, the metadata log and its snapshots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pykbroker.cli.log_dump.coordinator_records import coordinator_document, coordinator_text
from pykbroker.cli.log_dump.finding import Finding, corruption
from pykbroker.cli.log_dump.metadata_records import (
    control_document,
    control_text,
    metadata_document,
)
from pykbroker.cli.output import bytes_text, counted
from pykbroker.cli.record_format import field, time_text
from pykbroker_protocol.compiler import MalformedMessage
from pykbroker_protocol.records.batch import PREFIX_BYTES, RecordBatch, TimestampType
from pykbroker_protocol.records.corrupt import CorruptBatch, TruncatedBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import BinaryIO

    from pykbroker.cli.log_dump.coordinator_records import RecordTypes
    from pykbroker_protocol.records.record import Record

    ExplainRecord = Callable[[Record], Finding]

LENGTH_AT = slice(8, 12)
BATCH_BYTES_MAX = 1 << 30


@dataclass(slots=True)
class Tally:
    """Counts of the batches read so far."""

    batches: int = 0
    records: int = 0
    first_offset: int | None = None
    next_offset: int = 0


def explain_batches(
    path: Path, explain_record: ExplainRecord, *, with_records: bool
) -> Iterator[Finding]:
    """Yields verified batches, their records, and a summary.

    Control records are yielded even without `with_records`.
    """
    tally = Tally()
    position = 0
    try:
        with path.open("rb") as file:
            while (batch := next_batch(file)) is not None:
                yield from explain_batch(batch, position, tally)
                if batch.is_control:
                    yield from explain_records(batch, explain_control_record)
                elif with_records:
                    yield from explain_records(batch, explain_record)
                position += batch.size_bytes
    except CorruptBatch as reason:
        yield corruption(f"at byte {position}: {reason}", position=position)
    yield summary(tally)


def next_batch(file: BinaryIO) -> RecordBatch | None:
    """Reads the batch at the current position; returns None at the end of the file."""
    prefix = file.read(PREFIX_BYTES)
    if not prefix:
        return None
    if len(prefix) < PREFIX_BYTES:
        raise TruncatedBatch(f"{len(prefix)} bytes are left, less than a batch header")
    length = int.from_bytes(prefix[LENGTH_AT], "big", signed=True)
    if not 0 <= length <= BATCH_BYTES_MAX:
        raise CorruptBatch(f"invalid batch length {length}")
    return RecordBatch.parse(prefix + file.read(length))


def explain_batch(batch: RecordBatch, position: int, tally: Tally) -> Iterator[Finding]:
    is_crc_valid = batch.is_crc_valid()
    document = batch_document(batch, position, is_crc_valid=is_crc_valid)
    yield Finding(kind="batch", text=batch_text(batch, position), document=document)
    if not is_crc_valid:
        yield corruption(f"CRC mismatch in the batch at byte {position}", position=position)
    if tally.batches and batch.base_offset < tally.next_offset:
        text = f"base offset {batch.base_offset} after last offset {tally.next_offset - 1}"
        yield corruption(text, position=position)
    tally.batches += 1
    tally.records += batch.record_count
    tally.next_offset = batch.next_offset
    if tally.first_offset is None:
        tally.first_offset = batch.base_offset


def batch_document(batch: RecordBatch, position: int, *, is_crc_valid: bool) -> dict[str, Any]:
    return {
        "position": position,
        "size_bytes": batch.size_bytes,
        "base_offset": batch.base_offset,
        "last_offset": batch.last_offset,
        "records": batch.record_count,
        "leader_epoch": batch.partition_leader_epoch,
        "compression": batch.compression.name.lower(),
        "timestamp_type": batch.timestamp_type.name.lower(),
        "base_timestamp": batch.base_timestamp,
        "max_timestamp": batch.max_timestamp,
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "base_sequence": batch.base_sequence,
        "transactional": batch.is_transactional,
        "control": batch.is_control,
        "crc": batch.crc,
        "crc_valid": is_crc_valid,
    }


def batch_text(batch: RecordBatch, position: int) -> str:
    parts = [
        f"batch {batch.base_offset}..{batch.last_offset} at byte {position}",
        bytes_text(batch.size_bytes),
        counted(batch.record_count, "record"),
        f"leader epoch {batch.partition_leader_epoch}",
        batch.compression.name.lower() if batch.compression else "",
        f"{time_label(batch)} {time_text(batch.max_timestamp)}" if batch.max_timestamp >= 0 else "",
        producer_text(batch) if batch.is_idempotent else "",
        "transactional" if batch.is_transactional and not batch.is_control else "",
        "control" if batch.is_control else "",
        f"crc {batch.crc:08x}",
    ]
    return ", ".join(part for part in parts if part)


def time_label(batch: RecordBatch) -> str:
    is_append = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    return "append time" if is_append else "latest create time"


def producer_text(batch: RecordBatch) -> str:
    producer = f"producer {batch.producer_id} epoch {batch.producer_epoch}"
    return producer if batch.is_control else f"{producer} from sequence {batch.base_sequence}"


def explain_records(batch: RecordBatch, explain_record: ExplainRecord) -> Iterator[Finding]:
    try:
        yield from map(explain_record, batch.records())
    except CorruptBatch as reason:
        yield corruption(f"records of the batch at offset {batch.base_offset}: {reason}")


def explain_plain_record(record: Record) -> Finding:
    document = {
        "offset": record.offset,
        "timestamp": record.timestamp,
        **field("key", record.key),
        **field("value", record.value),
        "headers": [{"name": name, **field("value", value)} for name, value in record.headers],
    }
    key, value = shown(record.key), shown(record.value)
    headers = "".join(f", header {name}={shown(value)}" for name, value in record.headers)
    text = f"  {record.offset}  {time_text(record.timestamp)}  key {key}  value {value}{headers}"
    return Finding(kind="record", text=text, document=document)


def shown(content: bytes | None) -> str:
    return "null" if content is None else content.decode(errors="backslashreplace")


def explain_control_record(record: Record) -> Finding:
    try:
        document = control_document(record)
    except MalformedMessage as reason:
        return corruption(f"control record at offset {record.offset}: {reason}")
    text = f"  {record.offset}  {control_text(document)}"
    return Finding(kind="control", text=text, document={"offset": record.offset, **document})


def explain_metadata_record(record: Record) -> Finding:
    try:
        document = metadata_document(record.value or b"")
    except MalformedMessage as reason:
        return corruption(f"metadata record at offset {record.offset}: {reason}")
    text = f"  {record.offset}  {control_text(document)}"
    return Finding(kind="metadata", text=text, document={"offset": record.offset, **document})


def explain_coordinator_record(types: RecordTypes, record: Record) -> Finding:
    document = coordinator_document(types, record)
    text = f"  {record.offset}  {time_text(record.timestamp)}  {coordinator_text(document)}"
    at = {"offset": record.offset, "timestamp": record.timestamp}
    return Finding(kind="coordination", text=text, document={**at, **document})


def summary(tally: Tally) -> Finding:
    document = {
        "batches": tally.batches,
        "records": tally.records,
        "first_offset": tally.first_offset,
        "next_offset": tally.next_offset if tally.batches else None,
    }
    text = counted(tally.batches, "batch", "batches")
    if tally.batches:
        last_offset = tally.next_offset - 1
        text += f", {counted(tally.records, 'record')}, offsets {tally.first_offset}..{last_offset}"
    return Finding(kind="summary", text=text, document=document)
