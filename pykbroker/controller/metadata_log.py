"""The metadata log on disk, as the leader of a quorum of one voter writes it.

`append` returns the offset of the last record. `commit` returns once appended records are flushed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.controller.quorum.state import MalformedQuorumState, QuorumState, next_epoch
from pykbroker.controller.snapshot_files import newest_snapshot, read_snapshot, write_snapshot
from pykbroker.generators import run_to_end
from pykbroker.metadata.batches import (
    UnfinishedTransaction,
    committed_records,
    leader_change,
    record_batch_in_slices,
    records_of,
)
from pykbroker.metadata.records import MalformedRecord
from pykbroker.metadata.replay import InconsistentRecord, Replay, UnsupportedRecord
from pykbroker.metadata.snapshot import SnapshotName
from pykbroker.metadata.topic_names import CLUSTER_METADATA_TOPIC
from pykbroker_protocol.compiler import MalformedMessage
from pykbroker_protocol.records.batch import RecordBatch, iterate_batches
from pykbroker_protocol.records.corrupt import CorruptBatch
from pykbroker_storage.batch_scan import CorruptLog, FlushedDataLost
from pykbroker_storage.configuration import FOREVER_MS, LogConfiguration
from pykbroker_storage.filesystem import LOCAL_DISK, FileSystem, read_file, replace_file
from pykbroker_storage.mapped_file import OpenFiles

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pykbroker.metadata.image import ClusterImage
    from pykbroker.slices import Slices
    from pykbroker_protocol.message import Message
    from pykbroker_storage.log import Log
    from pykbroker_storage.log_directory import LogDirectory

METADATA_PARTITION = (CLUSTER_METADATA_TOPIC, 0)
METADATA_TOPIC_ID = (1).to_bytes(16, "big")
QUORUM_STATE_FILE = "quorum-state"
READ_BYTES_MAX = 8 * 1024 * 1024

DESCRIPTORS_MAX = 8
"""Reserved for this log, so a commit does not wait for descriptors of other logs and clients."""

# Records are deleted only when a snapshot contains them; there is no retention.
CONFIGURATION = LogConfiguration(
    segment_bytes=1024 * 1024 * 1024,
    segment_ms=FOREVER_MS,
    max_message_bytes=8 * 1024 * 1024,
    cleanup_policy=frozenset(),
    forbids_data_loss=True,
)

ADVICE = (
    "nothing was changed; restore the folder from a copy "
    "(docs/operations.md, 'Metadata is corrupt or missing')"
)


_UNREADABLE = (
    CorruptBatch,
    CorruptLog,
    InconsistentRecord,
    MalformedMessage,
    MalformedRecord,
    UnfinishedTransaction,
    UnsupportedRecord,
)


class CannotLoadMetadata(Exception):
    """This node cannot use the metadata in the log directory; the message is for the operator."""


class MetadataLog:
    """Blocking; one writer. `commit` may run on another thread."""

    @classmethod
    def open(
        cls,
        directory: LogDirectory,
        *,
        node_id: int,
        now_ms: int,
        durable: bool,
        filesystem: FileSystem = LOCAL_DISK,
    ) -> MetadataLog:
        """Raises CannotLoadMetadata if existing metadata is missing or cannot be read."""
        open_files = OpenFiles(filesystem, DESCRIPTORS_MAX)
        if METADATA_PARTITION in directory:
            try:
                log = directory.log(
                    METADATA_PARTITION,
                    now_ms=now_ms,
                    configuration=CONFIGURATION,
                    open_files=open_files,
                )
            except FlushedDataLost as problem:
                raise CannotLoadMetadata(f"{problem}; {ADVICE}") from problem
            except OSError as problem:
                raise CannotLoadMetadata(f"{directory.path}: {problem}") from problem
            if not log.log_end_offset and not newest_snapshot(filesystem, log.directory):
                cls._refuse_loss(directory, "is empty")
        else:
            cls._refuse_loss(directory, "is missing")
            log = directory.create_log(
                METADATA_PARTITION,
                topic_id=METADATA_TOPIC_ID,
                configuration=CONFIGURATION,
                now_ms=now_ms,
                open_files=open_files,
            )
            filesystem.sync_directory(directory.path)  # a power loss must not remove the log
        return cls(log, node_id=node_id, durable=durable, filesystem=filesystem)

    @staticmethod
    def _refuse_loss(directory: LogDirectory, condition: str) -> None:
        """Raises CannotLoadMetadata unless the node is new: it has no partitions."""
        held = [
            f"{topic}-{index}"
            for topic, index in directory.partitions()
            if (topic, index) != METADATA_PARTITION
        ]
        if held:
            raise CannotLoadMetadata(
                f"{directory.path}/{CLUSTER_METADATA_TOPIC}-0 {condition}, but the directory "
                f"contains partitions (number: {len(held)}, first: {held[0]}); {ADVICE}"
            )

    def __init__(
        self, log: Log, *, node_id: int, durable: bool, filesystem: FileSystem = LOCAL_DISK
    ) -> None:
        self.log = log
        self.epoch = 0
        self._node_id = node_id
        self.is_durable = durable
        self._filesystem = filesystem

    @property
    def end_offset(self) -> int:
        """Offset of the next record."""
        return self.log.log_end_offset

    def begin_epoch(self, now_ms: int) -> None:
        """Begins a new leader epoch; `quorum-state` is written before a record of the epoch."""
        try:
            known = self._read_state()
        except MalformedQuorumState as problem:
            raise CannotLoadMetadata(
                f"{self._state_path}: {problem}; restore the file from a copy, or remove it: the "
                "epoch is then taken from the metadata log"
            ) from problem
        last = self.log.leader_epochs.latest_epoch
        state = next_epoch(known, node_id=self._node_id, last_epoch_in_log=last)
        replace_file(self._filesystem, self._state_path, state.encode())
        self.epoch = state.leader_epoch
        self._append(leader_change(self._node_id, state.voters, timestamp_ms=now_ms), now_ms)

    def append(self, records: Sequence[Message], now_ms: int) -> Slices[int]:
        """Appends records as one batch, so a crash leaves all or none. Returns the last offset."""
        encoded = yield from record_batch_in_slices(records, timestamp_ms=now_ms)
        return self._append(encoded, now_ms)

    def _append(self, encoded: bytes, now_ms: int) -> int:
        buffer = bytearray(encoded)
        batch = RecordBatch.parse(buffer)
        return self.log.append(buffer, [batch], leader_epoch=self.epoch, now_ms=now_ms).last_offset

    def commit(self) -> None:
        """Flushes appended records."""
        self.log.flush()

    # --- reading

    def load(self, image: ClusterImage) -> None:
        """Brings an empty image to the log end: replays the newest snapshot and later records."""
        replay = Replay(image)
        try:
            offset = self._load_snapshot(replay)
            for record in committed_records(self._records(offset)):
                replay.add(record)
        except _UNREADABLE as problem:
            raise CannotLoadMetadata(f"{self.log.directory}: {problem}; {ADVICE}") from problem
        image.apply(run_to_end(replay.finish(self.end_offset - 1)))

    def _load_snapshot(self, replay: Replay) -> int:
        """Returns the offset at which the remaining records begin in the log."""
        name = newest_snapshot(self._filesystem, self.log.directory)
        start = self.log.log_start_offset
        if name is None or name.end_offset < start:
            if start > 0:
                raise CannotLoadMetadata(
                    f"{self.log.directory} begins at offset {start}, and no snapshot contains the "
                    f"records before it; {ADVICE}"
                )
            return start
        for record in read_snapshot(self._filesystem, self.log.directory, name):
            replay.add(record)
        if name.end_offset > self.end_offset:  # unflushed records that the snapshot contains
            self.log.truncate_fully_and_start_at(name.end_offset, now_ms=0)
        return name.end_offset

    def _records(self, offset: int) -> Iterator[Message]:
        """Returns all records from an offset to the log end."""
        end = self.log.log_end_offset
        while offset < end:
            found = self.log.read(offset, bytes_max=READ_BYTES_MAX, end_offset=end)
            if found is None:
                raise CorruptLog(f"offsets {offset} to {end - 1} are missing")
            for batch in iterate_batches(found.view):
                if batch.base_offset > offset:
                    raise CorruptLog(f"offsets {offset} to {batch.base_offset - 1} are missing")
                offset = batch.next_offset
                yield from records_of(batch)

    # --- snapshots

    @property
    def size_bytes(self) -> int:
        return self.log.size_bytes

    def begin_snapshot(self, now_ms: int) -> SnapshotName:
        """Rolls the log and returns the name of a snapshot that ends here."""
        self.log.roll(now_ms)
        return SnapshotName(self.end_offset, self.log.leader_epochs.latest_epoch)

    def write_snapshot(self, name: SnapshotName, image: ClusterImage, now_ms: int) -> None:
        """Writes and flushes a snapshot. The image must not change; may run in another thread."""
        write_snapshot(self._filesystem, self.log.directory, name, image, timestamp_ms=now_ms)

    def delete_before(self, name: SnapshotName, now_ms: int) -> None:
        """Deletes segments that the snapshot contains."""
        self.log.advance_log_start(name.end_offset, now_ms)

    # --- the state of the voter

    def _read_state(self) -> QuorumState:
        try:
            return QuorumState.decode(read_file(self._filesystem, self._state_path))
        except FileNotFoundError:
            return QuorumState()

    @property
    def _state_path(self) -> str:
        return f"{self.log.directory}/{QUORUM_STATE_FILE}"
