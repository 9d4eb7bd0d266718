"""The offset checkpoints of a log directory: current values and files."""

from collections.abc import Mapping
from threading import Lock
from typing import NamedTuple

from pykbroker_storage.checkpoint import (
    FIRST_DIRTY_FILE,
    HIGH_WATERMARK_FILE,
    LOG_START_FILE,
    RECOVERY_POINT_FILE,
    TopicPartition,
)
from pykbroker_storage.directory_files import read_checkpoint, write_checkpoint
from pykbroker_storage.filesystem import FileSystem


class OffsetSnapshot(NamedTuple):
    """The offsets at one moment by file name; later snapshots have higher versions."""

    version: int
    by_file: Mapping[str, Mapping[TopicPartition, int]]


class CheckpointFiles:
    """Writes the checkpoint files; any thread may write, but never replaces newer offsets."""

    def __init__(self, filesystem: FileSystem, directory: str) -> None:
        self._filesystem = filesystem
        self._directory = directory
        self._writing = Lock()
        self._latest_version = 0
        self._is_over = False
        self._written: dict[str, Mapping[TopicPartition, int]] = {}
        self.written_version = 0  # all files are at least this new

    def write(self, snapshot: OffsetSnapshot) -> None:
        """Writes and flushes changed files, unless a newer snapshot was written."""
        with self._writing:
            if self._is_over or snapshot.version <= self._latest_version:
                return
            self._latest_version = snapshot.version
            for name, offsets in snapshot.by_file.items():
                if self._written.get(name) != offsets:
                    self._written.pop(name, None)  # a failed write leaves an unknown content
                    write_checkpoint(self._filesystem, f"{self._directory}/{name}", offsets)
                    self._written[name] = offsets
            self.written_version = snapshot.version

    def end(self) -> None:
        """Ignores later writes, because another broker may use the directory then."""
        with self._writing:
            self._is_over = True


class OffsetCheckpoints:
    """Current offsets with one owner; the `write` methods may run on other threads."""

    def __init__(self, filesystem: FileSystem, directory: str) -> None:
        self._filesystem = filesystem
        self._directory = directory
        self.recovery_points = self._read(RECOVERY_POINT_FILE)
        self.log_starts = self._read(LOG_START_FILE)
        self.high_watermarks = self._read(HIGH_WATERMARK_FILE)
        self.first_dirty = self._read(FIRST_DIRTY_FILE)
        self._files = CheckpointFiles(filesystem, directory)
        self._version = 0
        # Deleted logs, and the last version that may have written their offsets.
        self._removed: dict[TopicPartition, int] = {}

    def _read(self, name: str) -> dict[TopicPartition, int]:
        return read_checkpoint(self._filesystem, f"{self._directory}/{name}")

    def _all(self) -> tuple[dict[TopicPartition, int], ...]:
        return self.recovery_points, self.log_starts, self.high_watermarks, self.first_dirty

    def partitions(self) -> set[TopicPartition]:
        """Returns all partitions with offsets, with or without a log."""
        return set().union(*self._all())

    def remove(self, partition: TopicPartition) -> None:
        for offsets in self._all():
            offsets.pop(partition, None)
        self._removed[partition] = self._version

    def may_be_in_files(self, partition: TopicPartition) -> bool:
        """Returns whether a restart could read the offsets of a deleted log."""
        return self._removed.get(partition, -1) >= self._files.written_version

    def has_removed_in_files(self) -> bool:
        return any(version >= self._files.written_version for version in self._removed.values())

    def snapshot(self) -> OffsetSnapshot:
        """Copies the current offsets for writing."""
        self._version += 1
        self._removed = {
            it: version for it, version in self._removed.items() if self.may_be_in_files(it)
        }
        return OffsetSnapshot(
            self._version,
            {
                RECOVERY_POINT_FILE: self.recovery_points.copy(),
                LOG_START_FILE: self.log_starts.copy(),
                HIGH_WATERMARK_FILE: self.high_watermarks.copy(),
            },
        )

    def write(self, snapshot: OffsetSnapshot) -> None:
        """Writes and flushes a snapshot unless a newer one was written."""
        self._files.write(snapshot)

    def write_first_dirty(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Writes and flushes the cleaner checkpoint; one call at a time."""
        write_checkpoint(self._filesystem, f"{self._directory}/{FIRST_DIRTY_FILE}", offsets)

    def end(self) -> None:
        """Ignores all later writes."""
        self._files.end()
