"""The metadata log as an observer of the quorum keeps it: a copy of the leader's log.

The copy can be fetched again, so a log that cannot be used is emptied, not refused.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from pykbroker.metadata_log.metadata_log import (
    CONFIGURATION,
    METADATA_PARTITION,
    MetadataLog,
    create_log,
    open_existing_log,
)
from pykbroker.metadata_log.snapshot_files import delete_unfinished
from pykbroker_protocol.records.batch import HEADER_BYTES, LENGTH_AT, PREFIX_BYTES
from pykbroker_storage.batch_preparation import InvalidReplicatedBatch

if TYPE_CHECKING:
    from pykbroker.metadata.snapshot import SnapshotName
    from pykbroker_protocol.compiler import Buffer
    from pykbroker_storage.log_directory import LogDirectory

logger = logging.getLogger(__name__)

NO_EPOCH = 0
"""Epoch of an empty log without a snapshot, as Apache Kafka's observers send it."""

OBSERVER_CONFIGURATION = replace(CONFIGURATION, forbids_data_loss=False, ends_at_gaps=True)
"""Flushed records that recovery cannot read are removed and fetched again."""


class ObserverLog(MetadataLog):
    """Blocking; one writer."""

    snapshot: SnapshotName | None = None
    """The newest snapshot on disk. The log has all later records, or is empty."""

    @classmethod
    def open(cls, directory: LogDirectory, *, now_ms: int) -> ObserverLog:
        """Opens or creates the log, and aligns it with the newest snapshot. Raises OSError."""
        if METADATA_PARTITION in directory:
            found = open_existing_log(directory, now_ms, OBSERVER_CONFIGURATION)
        else:
            found = create_log(directory, now_ms, OBSERVER_CONFIGURATION)
        log = cls(found, directory.filesystem)
        delete_unfinished(log.filesystem, found.directory)
        log.align(now_ms)
        return log

    def align(self, now_ms: int) -> None:
        """Makes the log continue the newest snapshot."""
        self.snapshot = snapshot = self.newest_snapshot()
        start, end = self.log.log_start_offset, self.end_offset
        if snapshot is not None and start <= snapshot.end_offset <= end:
            return
        if snapshot is None and start == 0:
            return
        if snapshot is None or snapshot.end_offset < start:
            logger.warning(
                "metadata log: begins at offset %d without a snapshot of the records before it; "
                "fetching all metadata again",
                start,
            )
            self.snapshot = None
        self.restart(self.snapshot, now_ms)

    def restart(self, snapshot: SnapshotName | None, now_ms: int) -> None:
        """Empties the log; it continues after the snapshot, or at offset 0."""
        self.snapshot = snapshot
        start = 0 if snapshot is None else snapshot.end_offset
        self.log.leader_epochs.truncate_from_end(0)  # they can belong to records that diverge
        self.log.truncate_fully_and_start_at(start, now_ms)

    def discard(self, snapshot: SnapshotName, now_ms: int) -> None:
        """Deletes a snapshot that cannot be used, and all records after it."""
        self.filesystem.unlink(f"{self.log.directory}/{snapshot.file_name}")
        self.restart(None, now_ms)

    @property
    def start_offset(self) -> int:
        return self.log.log_start_offset

    @property
    def last_epoch(self) -> int:
        """Epoch of the last record, which can be in the snapshot."""
        latest = self.log.leader_epochs.latest_epoch
        if latest >= 0:
            return latest
        return NO_EPOCH if self.snapshot is None else self.snapshot.epoch

    def epoch_at(self, offset: int) -> int:
        """Returns the epoch of a record in the log or, before it, that of the snapshot."""
        found = self.log.leader_epochs.epoch_at(offset)
        if found >= 0 or self.snapshot is None:
            return found
        return self.snapshot.epoch

    def append(self, records: Buffer, *, leader_epoch: int, now_ms: int) -> None:
        """Appends the complete batches of a response.

        Raises InvalidReplicatedBatch for invalid batches, and OSError; the log is unchanged then.
        """
        whole = whole_batches(records)
        first_offset = int.from_bytes(whole[:8], "big", signed=True)
        if first_offset != self.end_offset:
            raise InvalidReplicatedBatch(
                f"received offset {first_offset}, expected {self.end_offset}"
            )
        if self.last_epoch > leader_epoch:
            raise InvalidReplicatedBatch(
                f"leader epoch {leader_epoch} is older than epoch {self.last_epoch} in the log"
            )
        self.log.append_replicated(whole, leader_epoch=leader_epoch, now_ms=now_ms)

    def divergence(self, epoch: int, end_offset: int) -> int:
        """Returns where to truncate if the leader's records up to `epoch` end at `end_offset`."""
        found = self.log.leader_epochs.end_offset_for(epoch, self.end_offset)
        own_end = found.end_offset if found.end_offset >= 0 else self.end_offset
        return max(min(own_end, end_offset), self.start_offset)

    def truncate_to(self, offset: int, now_ms: int) -> None:
        self.log.truncate_to(offset, now_ms)


def whole_batches(records: Buffer) -> memoryview:
    """Returns the complete batches; the leader can cut the last one at the requested size.

    Raises InvalidReplicatedBatch if there is none.
    """
    view, position = memoryview(records), 0
    while len(view) - position >= HEADER_BYTES:
        length = int.from_bytes(view[position + LENGTH_AT : position + PREFIX_BYTES], "big")
        if position + PREFIX_BYTES + length > len(view):
            break
        position += PREFIX_BYTES + length
    if not position:
        raise InvalidReplicatedBatch(f"{len(view)} bytes have no complete batch")
    return view[:position]
