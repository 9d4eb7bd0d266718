"""The metadata log of a controller model, in memory: batches with epochs, and one snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pykbroker.metadata.batches import leader_change, record_batch
from pykbroker.metadata.snapshot import SnapshotName, encode_snapshot
from pykbroker_protocol.records.batch import RecordBatch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pykbroker.metadata.image import ClusterImage
    from pykbroker_protocol.message import Message

EMPTY_LOG_EPOCH = 0


class LoggedBatch(NamedTuple):
    base_offset: int
    next_offset: int
    epoch: int
    data: bytes
    records: tuple[Message, ...]
    """Metadata records; a control batch has none."""


class EpochEnd(NamedTuple):
    """The last epoch that both logs can share, and its end in this log."""

    epoch: int
    end_offset: int


class ModelSnapshot(NamedTuple):
    name: SnapshotName
    data: bytes


class ModelLog:
    def __init__(self) -> None:
        self.batches: list[LoggedBatch] = []
        self.snapshot: ModelSnapshot | None = None
        self.start_offset = 0
        self.high_watermark = 0

    @property
    def end_offset(self) -> int:
        return self.batches[-1].next_offset if self.batches else self.start_offset

    @property
    def last_epoch(self) -> int:
        if self.batches:
            return self.batches[-1].epoch
        return EMPTY_LOG_EPOCH if self.snapshot is None else self.snapshot.name.epoch

    # --- changes

    def append(self, records: Sequence[Message], epoch: int, now_ms: int) -> None:
        """Appends records as one batch."""
        data = record_batch(records, timestamp_ms=now_ms, base_offset=self.end_offset, epoch=epoch)
        end = self.end_offset + len(records)
        self.batches.append(LoggedBatch(self.end_offset, end, epoch, data, tuple(records)))

    def begin_epoch(self, epoch: int, leader: int, voters: Sequence[int], now_ms: int) -> None:
        buffer = bytearray(leader_change(leader, voters, timestamp_ms=now_ms))
        RecordBatch.parse(buffer).assign_offsets(self.end_offset, epoch)
        data = bytes(buffer)
        self.batches.append(LoggedBatch(self.end_offset, self.end_offset + 1, epoch, data, ()))

    def truncate(self, offset: int) -> None:
        """Removes batches from an offset on, which is the start of a batch."""
        assert offset >= self.high_watermark, "committed records are never truncated"
        while self.batches and self.batches[-1].base_offset >= offset:
            self.batches.pop()

    def take_snapshot(self, image: ClusterImage, now_ms: int) -> None:
        """Replaces committed batches by a snapshot."""
        assert image.offset + 1 == self.high_watermark == self.end_offset
        name = SnapshotName(self.end_offset, self.last_epoch)
        self.snapshot = ModelSnapshot(name, encode_snapshot(image, name, now_ms))
        self.start_offset = name.end_offset
        self.batches.clear()

    # --- reading

    def read(self, offset: int, bytes_max: int) -> bytes:
        """Returns whole batches from an offset on: at least one, uncommitted records included."""
        found = bytearray()
        for batch in self.batches:
            if batch.next_offset <= offset:
                continue
            if found and len(found) + len(batch.data) > bytes_max:
                break
            found += batch.data
        return bytes(found)

    def compare(self, fetch_offset: int, last_epoch: int) -> EpochEnd | SnapshotName | None:
        """Compares the log of a replica with this one; None means that they agree so far.

        Returns a snapshot if this log no longer has the records that the replica needs.
        """
        snapshot = None if self.snapshot is None else self.snapshot.name
        if snapshot is not None and fetch_offset < self.start_offset:
            return snapshot
        if fetch_offset == 0 and self.start_offset == 0:
            return None
        found = self._end_of(last_epoch)
        if snapshot is not None and (
            found.epoch < snapshot.epoch or found.end_offset < snapshot.end_offset
        ):
            return snapshot
        if found.epoch != last_epoch or found.end_offset < fetch_offset:
            return found
        return None

    def _end_of(self, epoch: int) -> EpochEnd:
        """Returns the largest epoch of this log up to the given one, with its end offset."""
        end = self.end_offset
        for batch in reversed(self.batches):
            if batch.epoch <= epoch:
                return EpochEnd(batch.epoch, end)
            end = batch.base_offset
        if self.snapshot is not None and self.snapshot.name.epoch <= epoch:
            return EpochEnd(self.snapshot.name.epoch, end)
        return EpochEnd(EMPTY_LOG_EPOCH, self.start_offset)
