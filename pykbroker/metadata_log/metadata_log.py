"""The metadata log on disk: its records, its snapshots and the quorum state.

`controller.leader_log` writes it as leader, `membership.observer_log` as observer of a quorum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.metadata.batches import UnfinishedTransaction
from pykbroker.metadata.records import MalformedRecord
from pykbroker.metadata.replay import InconsistentRecord, UnsupportedRecord
from pykbroker.metadata.topic_names import CLUSTER_METADATA_TOPIC
from pykbroker.metadata_log.quorum_state import QuorumState
from pykbroker.metadata_log.snapshot_files import newest_snapshot, write_snapshot
from pykbroker_protocol.compiler import MalformedMessage
from pykbroker_protocol.records.batch import iterate_batches
from pykbroker_protocol.records.corrupt import CorruptBatch
from pykbroker_storage.batch_scan import CorruptLog
from pykbroker_storage.configuration import FOREVER_MS, LogConfiguration
from pykbroker_storage.filesystem import LOCAL_DISK, FileSystem, read_file, replace_file
from pykbroker_storage.mapped_file import OpenFiles

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pykbroker.metadata.image import ClusterImage
    from pykbroker.metadata.snapshot import SnapshotName
    from pykbroker_protocol.records.batch import RecordBatch
    from pykbroker_storage.log import Log
    from pykbroker_storage.log_directory import LogDirectory

METADATA_PARTITION = (CLUSTER_METADATA_TOPIC, 0)
METADATA_TOPIC_ID = (1).to_bytes(16, "big")
QUORUM_STATE_FILE = "quorum-state"
READ_BYTES_MAX = 8 * 1024 * 1024
BATCH_BYTES_MAX = 8 * 1024 * 1024

DESCRIPTORS_MAX = 8
"""Reserved for this log, so a commit does not wait for descriptors of other logs and clients."""

# Records are deleted only when a snapshot contains them; there is no retention.
CONFIGURATION = LogConfiguration(
    segment_bytes=1024 * 1024 * 1024,
    segment_ms=FOREVER_MS,
    max_message_bytes=BATCH_BYTES_MAX,
    cleanup_policy=frozenset(),
    forbids_data_loss=True,
)

UNREADABLE = (
    CorruptBatch,
    CorruptLog,
    InconsistentRecord,
    MalformedMessage,
    MalformedRecord,
    UnfinishedTransaction,
    UnsupportedRecord,
)
"""Reasons why records of the log or of a snapshot cannot be applied."""


class CannotLoadMetadata(Exception):
    """This node cannot use the metadata in the log directory; the message is for the operator."""


def open_existing_log(
    directory: LogDirectory, now_ms: int, configuration: LogConfiguration = CONFIGURATION
) -> Log:
    """Opens the log of a directory that has one. Raises FlushedDataLost or OSError."""
    return directory.log(
        METADATA_PARTITION,
        now_ms=now_ms,
        configuration=configuration,
        open_files=OpenFiles(directory.filesystem, DESCRIPTORS_MAX),
    )


def create_log(
    directory: LogDirectory, now_ms: int, configuration: LogConfiguration = CONFIGURATION
) -> Log:
    log = directory.create_log(
        METADATA_PARTITION,
        topic_id=METADATA_TOPIC_ID,
        configuration=configuration,
        now_ms=now_ms,
        open_files=OpenFiles(directory.filesystem, DESCRIPTORS_MAX),
    )
    directory.filesystem.sync_directory(directory.path)  # a power loss must not remove the log
    return log


class MetadataLog:
    """Blocking; one writer. Snapshots and flushes may run on another thread."""

    def __init__(self, log: Log, filesystem: FileSystem = LOCAL_DISK) -> None:
        self.log = log
        self.filesystem = filesystem

    @property
    def end_offset(self) -> int:
        """Offset of the next record."""
        return self.log.log_end_offset

    @property
    def size_bytes(self) -> int:
        return self.log.size_bytes

    def batches(self, offset: int, end_offset: int) -> Iterator[RecordBatch]:
        """Returns all batches between two offsets, which batches begin or end with."""
        while offset < end_offset:
            found = self.log.read(offset, bytes_max=READ_BYTES_MAX, end_offset=end_offset)
            if found is None:
                raise CorruptLog(f"offsets {offset} to {end_offset - 1} are missing")
            for batch in iterate_batches(found.view):
                if batch.base_offset > offset:
                    raise CorruptLog(f"offsets {offset} to {batch.base_offset - 1} are missing")
                offset = batch.next_offset
                yield batch

    # --- snapshots

    def newest_snapshot(self) -> SnapshotName | None:
        return newest_snapshot(self.filesystem, self.log.directory)

    def write_snapshot(self, name: SnapshotName, image: ClusterImage, now_ms: int) -> None:
        """Writes and flushes a snapshot. The image must not change; may run in another thread."""
        write_snapshot(self.filesystem, self.log.directory, name, image, timestamp_ms=now_ms)

    def delete_before(self, name: SnapshotName, now_ms: int) -> None:
        """Deletes segments that the snapshot contains."""
        self.log.advance_log_start(name.end_offset, now_ms)

    # --- quorum state

    def read_state(self) -> QuorumState:
        """Raises MalformedQuorumState."""
        try:
            return QuorumState.decode(read_file(self.filesystem, self.state_path))
        except FileNotFoundError:
            return QuorumState()

    def write_state(self, state: QuorumState) -> None:
        replace_file(self.filesystem, self.state_path, state.encode())

    @property
    def state_path(self) -> str:
        return f"{self.log.directory}/{QUORUM_STATE_FILE}"
