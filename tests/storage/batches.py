"""Creates batches and logs for the tests of pykbroker_storage."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from pykbroker_protocol.records.batch import RecordBatch, iterate_batches
from pykbroker_protocol.records.builder import BatchBuilder
from pykbroker_storage.configuration import LogConfiguration
from pykbroker_storage.filesystem import LOCAL_DISK, FileSystem
from pykbroker_storage.log import AppendResult, Log
from pykbroker_storage.mapped_file import OpenFiles

NOW = 1_700_000_000_000
SMALL = LogConfiguration(segment_bytes=1000, index_interval_bytes=200)
ONE_SEGMENT = LogConfiguration(index_interval_bytes=200)


def batch_bytes(
    values: Sequence[bytes],
    *,
    timestamp: int = NOW,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = -1,
    base_sequence: int = -1,
) -> bytearray:
    builder = BatchBuilder(
        base_offset=base_offset,
        partition_leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=base_sequence,
    )
    for value in values:
        builder.append(timestamp, None, value)
    return bytearray(builder.build())


def open_log(
    directory: Path,
    configuration: LogConfiguration = SMALL,
    *,
    was_clean: bool = False,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    disk: FileSystem = LOCAL_DISK,
    files_max: int = 16,
) -> Log:
    directory.mkdir(exist_ok=True)
    return Log.open(
        directory,
        configuration=configuration,
        was_clean=was_clean,
        now_ms=NOW,
        recovery_point=recovery_point,
        log_start_offset=log_start_offset,
        open_files=OpenFiles(disk, files_max),
    )


def append(
    log: Log,
    *values: bytes,
    timestamp: int = NOW,
    leader_epoch: int = 0,
    now_ms: int = NOW,
    producer_id: int = -1,
    base_sequence: int = -1,
) -> AppendResult:
    """Appends one batch with these records."""
    records = batch_bytes(
        values, timestamp=timestamp, producer_id=producer_id, base_sequence=base_sequence
    )
    batches = list(iterate_batches(records))
    return log.append(records, batches, leader_epoch, now_ms)


def batches_from(log: Log, offset: int, end_offset: int | None = None) -> Iterator[RecordBatch]:
    """Yields batches like a consumer that follows `next_offset`."""
    end_offset = log.log_end_offset if end_offset is None else end_offset
    while offset < end_offset:
        piece = log.read(offset, bytes_max=500, end_offset=end_offset)
        if piece is None:
            return
        yield from iterate_batches(piece.view)
        offset = piece.next_offset


def records_from(log: Log, offset: int) -> list[tuple[int, bytes | None]]:
    """Returns every record from `offset` on and checks the checksum of each batch."""
    found = []
    for batch in batches_from(log, offset):
        assert batch.is_crc_valid()
        found += [(record.offset, record.value) for record in batch.records()]
    return [(at, value) for at, value in found if at >= offset]
