"""The metadata log as the leader of a quorum of one voter writes it.

`append` returns the offset of the last record. `commit` returns once appended records are flushed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker.generators import run_to_end
from pykbroker.metadata.batches import (
    committed_records,
    leader_change,
    record_batch_in_slices,
    records_of,
)
from pykbroker.metadata.replay import Replay
from pykbroker.metadata.snapshot import SnapshotName
from pykbroker.metadata.topic_names import CLUSTER_METADATA_TOPIC
from pykbroker.metadata_log.metadata_log import (
    METADATA_PARTITION,
    UNREADABLE,
    CannotLoadMetadata,
    MetadataLog,
    create_log,
    open_existing_log,
)
from pykbroker.metadata_log.quorum_state import MalformedQuorumState, next_epoch
from pykbroker.metadata_log.snapshot_files import newest_snapshot, read_snapshot
from pykbroker_protocol.records.batch import RecordBatch
from pykbroker_storage.batch_scan import FlushedDataLost
from pykbroker_storage.filesystem import LOCAL_DISK, FileSystem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pykbroker.metadata.image import ClusterImage
    from pykbroker.slices import Slices
    from pykbroker_protocol.message import Message
    from pykbroker_storage.log import Log
    from pykbroker_storage.log_directory import LogDirectory

ADVICE = (
    "nothing was changed; restore the folder from a copy "
    "(docs/operations.md, 'Metadata is corrupt or missing')"
)


class LeaderLog(MetadataLog):
    """Blocking; one writer. `commit` may run on another thread."""

    @classmethod
    def open(
        cls, directory: LogDirectory, *, node_id: int, now_ms: int, durable: bool
    ) -> LeaderLog:
        """Raises CannotLoadMetadata if existing metadata is missing or cannot be read."""
        filesystem = directory.filesystem
        if METADATA_PARTITION in directory:
            try:
                log = open_existing_log(directory, now_ms)
            except FlushedDataLost as problem:
                raise CannotLoadMetadata(f"{problem}; {ADVICE}") from problem
            except OSError as problem:
                raise CannotLoadMetadata(f"{directory.path}: {problem}") from problem
            if not log.log_end_offset and not newest_snapshot(filesystem, log.directory):
                cls._refuse_loss(directory, "is empty")
        else:
            cls._refuse_loss(directory, "is missing")
            log = create_log(directory, now_ms)
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
        super().__init__(log, filesystem)
        self.epoch = 0
        self._node_id = node_id
        self.is_durable = durable

    def begin_epoch(self, now_ms: int) -> None:
        """Begins a new leader epoch; `quorum-state` is written before a record of the epoch."""
        try:
            known = self.read_state()
        except MalformedQuorumState as problem:
            raise CannotLoadMetadata(
                f"{self.state_path}: {problem}; restore the file from a copy, or remove it: the "
                "epoch is then taken from the metadata log"
            ) from problem
        last = self.log.leader_epochs.latest_epoch
        state = next_epoch(known, node_id=self._node_id, last_epoch_in_log=last)
        self.write_state(state)
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

    def begin_snapshot(self, now_ms: int) -> SnapshotName:
        """Rolls the log and returns the name of a snapshot that ends here."""
        self.log.roll(now_ms)
        return SnapshotName(self.end_offset, self.log.leader_epochs.latest_epoch)

    # --- reading

    def load(self, image: ClusterImage) -> None:
        """Brings an empty image to the log end: replays the newest snapshot and later records."""
        replay = Replay(image)
        try:
            offset = self._load_snapshot(replay)
            for record in committed_records(self._records(offset)):
                replay.add(record)
        except UNREADABLE as problem:
            raise CannotLoadMetadata(f"{self.log.directory}: {problem}; {ADVICE}") from problem
        image.apply(run_to_end(replay.finish(self.end_offset - 1)))

    def _load_snapshot(self, replay: Replay) -> int:
        """Returns the offset at which the remaining records begin in the log."""
        name = self.newest_snapshot()
        start = self.log.log_start_offset
        if name is None or name.end_offset < start:
            if start > 0:
                raise CannotLoadMetadata(
                    f"{self.log.directory} begins at offset {start}, and no snapshot contains the "
                    f"records before it; {ADVICE}"
                )
            return start
        for record in read_snapshot(self.filesystem, self.log.directory, name):
            replay.add(record)
        if name.end_offset > self.end_offset:  # unflushed records that the snapshot contains
            self.log.truncate_fully_and_start_at(name.end_offset, now_ms=0)
        return name.end_offset

    def _records(self, offset: int) -> Iterator[Message]:
        """Returns all records from an offset to the log end."""
        for batch in self.batches(offset, self.end_offset):
            yield from records_of(batch)
