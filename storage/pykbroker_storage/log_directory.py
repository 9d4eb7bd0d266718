"""A log directory (`log.dirs`): the logs of all partitions, its lock and its checkpoints."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Self

from pykbroker_storage.batch_scan import FlushedDataLost
from pykbroker_storage.checkpoint import (
    META_PROPERTIES_FILE,
    PARTITION_METADATA_FILE,
    MalformedCheckpoint,
    MetaProperties,
    PartitionMetadata,
    TopicPartition,
)
from pykbroker_storage.configuration import LogConfiguration
from pykbroker_storage.deletion import PendingDeletions
from pykbroker_storage.directory_files import (
    UNKNOWN_BROKER_EPOCH,
    consume_clean_shutdown,
    mark_clean_shutdown,
)
from pykbroker_storage.directory_lock import AlreadyLocked, DirectoryLock
from pykbroker_storage.filesystem import (
    LOCAL_DISK,
    PRIVATE_MODE,
    FileSystem,
    read_file,
    replace_file,
    write_file,
)
from pykbroker_storage.log import Log
from pykbroker_storage.mapped_file import OpenFiles
from pykbroker_storage.offset_checkpoints import OffsetCheckpoints, OffsetSnapshot
from pykbroker_storage.partition_cleanup import is_segment

logger = logging.getLogger(__name__)

DELETED_SUFFIX = "-delete"
STRAY_SUFFIX = "-stray"
NAME_LETTERS_ANYWHERE = 143
"""Maximum name length that works on all file systems; eCryptfs has the lowest limit."""
DESCRIPTORS_MAX = 512
"""Descriptors that all logs of a directory share, unless the process limit is lower."""
# Above this number of changed logs, one sync of the disk is faster than five per log.
SYNC_EACH_MAX = 100


class LogDirectoryError(Exception):
    """The directory cannot be used; the message states the reason for the operator."""


class LogDirectoryLocked(LogDirectoryError):
    """Another broker holds the lock of the directory."""


class LogDirectoryUnwritable(LogDirectoryError):
    """The directory cannot be created, read or written."""


class ForeignLogDirectory(LogDirectoryError):
    """The directory belongs to another cluster or node."""


class LogDirectory:
    """Opens logs on first use; has one writer, like each log."""

    @classmethod
    def open(
        cls,
        path: str,
        *,
        cluster_id: str,
        node_id: int,
        new_directory_id: bytes,
        configuration: LogConfiguration,
        filesystem: FileSystem = LOCAL_DISK,
        open_files: OpenFiles | None = None,
    ) -> Self:
        """Locks the directory and creates it if needed; raises `LogDirectoryError`.

        `new_directory_id` is used if the directory has no id yet. `configuration` applies to logs
        that are opened without one.
        """
        path = path.rstrip("/") or "/"
        if open_files is None:
            open_files = OpenFiles(filesystem, DESCRIPTORS_MAX)
        try:
            filesystem.make_directory(path, PRIVATE_MODE)  # it contains all records
            lock = DirectoryLock.take(path)
        except AlreadyLocked:
            raise LogDirectoryLocked(
                f"data directory {path} is locked by another process"
            ) from None
        except OSError as problem:
            raise LogDirectoryUnwritable(f"{path} cannot be used: {problem.strerror}") from problem
        try:
            own = MetaProperties(
                cluster_id=cluster_id, node_id=node_id, directory_id=new_directory_id
            )
            directory_id = _claim(filesystem, path, own)
            return cls(
                path,
                directory_id=directory_id,
                configuration=configuration,
                open_files=open_files,
                lock=lock,
            )
        except BaseException as problem:
            lock.release()
            if isinstance(problem, OSError):
                message = f"{path} cannot be used: {problem.strerror}"
                raise LogDirectoryUnwritable(message) from problem
            raise

    def __init__(
        self,
        path: str,
        *,
        directory_id: bytes,
        configuration: LogConfiguration,
        open_files: OpenFiles,
        lock: DirectoryLock,
    ) -> None:
        self.path = path
        self.directory_id = directory_id
        self._lock = lock
        self._configuration = configuration
        self._open_files = open_files
        self._filesystem = open_files.filesystem
        self._pending_deletions = PendingDeletions(self._filesystem)
        self._is_refused = False
        self._topic_ids: dict[TopicPartition, bytes | None] = {}
        self._logs: dict[TopicPartition, Log | None] = dict.fromkeys(self._find_partitions())
        self._offsets = OffsetCheckpoints(self._filesystem, path)
        for partition in self._offsets.partitions() - self._logs.keys():
            self._offsets.remove(partition)  # its log was deleted just before a crash
        # Last, because nothing has changed before: if opening fails, the next start is still clean.
        self.was_clean, self.previous_broker_epoch = consume_clean_shutdown(self._filesystem, path)

    @property
    def filesystem(self) -> FileSystem:
        return self._filesystem

    def keep_lock(self) -> bool:
        """Returns False if the directory was removed, replaced or locked by another process."""
        return self._lock.keep(self._has_our_id)

    def _has_our_id(self) -> bool:
        path = f"{self.path}/{META_PROPERTIES_FILE}"
        try:
            found = MetaProperties.decode(read_file(self._filesystem, path))
        except (FileNotFoundError, MalformedCheckpoint):
            return False
        return found.directory_id == self.directory_id

    def use_this_thread(self) -> None:
        """Makes the calling thread the one that opens and evicts files of the logs."""
        self._open_files.set_owner_thread()

    # --- logs

    def partitions(self) -> list[TopicPartition]:
        return list(self._logs)

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self._logs

    def log(
        self,
        partition: TopicPartition,
        *,
        now_ms: int,
        configuration: LogConfiguration | None = None,
        open_files: OpenFiles | None = None,
    ) -> Log:
        """Returns the log of an existing partition; opens, and if needed recovers it, on first use.

        With its own `open_files` the log does not share descriptors with the other logs.
        Raises `FlushedDataLost` if its configuration forbids data loss.
        """
        log = self._logs[partition]
        if log is None:
            log = self._open_log(
                partition,
                configuration or self._configuration,
                now_ms,
                was_clean=self.was_clean,
                open_files=open_files,
            )
        return log

    def create_log(
        self,
        partition: TopicPartition,
        *,
        topic_id: bytes,
        configuration: LogConfiguration,
        now_ms: int,
        open_files: OpenFiles | None = None,
    ) -> Log:
        """Creates an empty log; `open_files` as in `log`."""
        assert partition not in self._logs, f"the log of {partition} exists already"
        if self._offsets.may_be_in_files(partition):
            self.checkpoint({})  # else a crash leaves the new log with the offsets of the old one
        folder = self._folder(partition)
        self._filesystem.make_directory(folder)  # may exist after a failed attempt on a full disk
        metadata = PartitionMetadata(topic_id=topic_id).encode()
        write_file(self._filesystem, f"{folder}/{PARTITION_METADATA_FILE}", metadata)
        self._topic_ids[partition] = topic_id
        return self._open_log(
            partition, configuration, now_ms, was_clean=True, open_files=open_files
        )

    def delete_log(self, partition: TopicPartition, *, now_ms: int) -> None:
        """Removes the log; `sweep` deletes its files after `file.delete.delay.ms`."""
        topic_id = self.topic_id(partition) or bytes(16)
        log = self._logs[partition]
        delay_ms = (log.configuration if log else self._configuration).file_delete_delay_ms
        deletion = self._rename_folder(partition, topic_id.hex() + DELETED_SUFFIX)
        self._pending_deletions.schedule_directory(deletion, now_ms + delay_ms)

    def rename_to_stray(self, partition: TopicPartition) -> str:
        """Renames a log that the metadata does not contain, to a name that ends in `-stray`.

        Returns the path. Later starts neither open nor delete it, like Apache Kafka.
        """
        topic_id = (self.topic_id(partition) or bytes(16)).hex()
        before = sum(f"-{partition[1]}.{topic_id}" in name for name in self.strays())
        ending = f"{topic_id}.{before}" if before else topic_id
        return self._rename_folder(partition, ending + STRAY_SUFFIX)

    def strays(self) -> list[str]:
        """Returns the folders that `rename_to_stray` renamed, now or at an earlier start."""
        names = self._filesystem.list_directory(self.path)
        return sorted(name for name in names if name.endswith(STRAY_SUFFIX))

    def _rename_folder(self, partition: TopicPartition, ending: str) -> str:
        """Closes the log, renames its folder and removes the partition from the directory."""
        log = self._logs[partition]
        if log is not None:
            log.abandon()
            self._logs[partition] = None  # if renaming fails, the log can be opened again
        topic, number = partition
        suffix = f"-{number}.{ending}"
        # The present folder name fits, but 255 letters may not: fuse-overlayfs allows 251.
        name_letters_max = max(len(f"{topic}-{number}"), NAME_LETTERS_ANYWHERE)
        path = f"{self.path}/{topic[: name_letters_max - len(suffix)]}{suffix}"
        self._filesystem.rename(self._folder(partition), path)
        del self._logs[partition]
        self._offsets.remove(partition)
        self._topic_ids.pop(partition, None)
        return path

    def write_topic_id(self, partition: TopicPartition, topic_id: bytes) -> None:
        """Writes `partition.metadata` again after the file was lost or corrupted."""
        metadata = PartitionMetadata(topic_id=topic_id).encode()
        path = f"{self._folder(partition)}/{PARTITION_METADATA_FILE}"
        replace_file(self._filesystem, path, metadata)
        self._topic_ids[partition] = topic_id

    def sweep(self, now_ms: int) -> int:
        """Unlinks deleted files that are due; may run on another thread."""
        return self._pending_deletions.sweep(now_ms)

    def topic_id(self, partition: TopicPartition) -> bytes | None:
        """Returns the topic id in `partition.metadata`, or None if that is missing or corrupt."""
        if partition not in self._topic_ids:
            self._topic_ids[partition] = self._read_topic_id(partition)
        return self._topic_ids[partition]

    def space_bytes(self) -> tuple[int, int]:
        """Returns the size of the disk and its usable bytes (DescribeLogDirs)."""
        return self._filesystem.space_bytes(self.path)

    # --- checkpoints

    def high_watermark(self, partition: TopicPartition) -> int:
        """Returns the high watermark as last passed to `checkpoint`."""
        return self._offsets.high_watermarks.get(partition, 0)

    def checkpoint(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Writes and flushes the offset checkpoints that recovery uses."""
        self.save_offsets(self.offset_snapshot(high_watermarks))

    @property
    def has_offsets_of_deleted_logs(self) -> bool:
        """True if checkpoint files may contain them; `create_log` then writes the files."""
        return self._offsets.has_removed_in_files()

    def offset_snapshot(self, high_watermarks: Mapping[TopicPartition, int]) -> OffsetSnapshot:
        checkpoints = self._offsets
        checkpoints.high_watermarks.update(
            (partition, offset)
            for partition, offset in high_watermarks.items()
            if partition in self._logs
        )
        for partition, log in self._opened():
            checkpoints.recovery_points[partition] = log.recovery_point
            if log.log_start_offset:
                checkpoints.log_starts[partition] = log.log_start_offset
        return checkpoints.snapshot()

    def save_offsets(self, snapshot: OffsetSnapshot) -> None:
        """Writes and flushes a snapshot unless it is outdated; may run on another thread."""
        self._offsets.write(snapshot)

    def first_dirty_offset(self, partition: TopicPartition) -> int:
        """Returns the offset up to which the log is compacted; 0 if it never was."""
        return self._offsets.first_dirty.get(partition, 0)

    def set_first_dirty_offset(self, partition: TopicPartition, offset: int) -> None:
        """Records progress of compaction, or a lower offset after the log was truncated."""
        if partition in self._logs:
            self._offsets.first_dirty[partition] = offset

    def first_dirty_offsets(self) -> dict[TopicPartition, int]:
        return self._offsets.first_dirty.copy()

    def save_first_dirty_offsets(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Writes and flushes the cleaner checkpoint; may run on another thread, one at a time."""
        self._offsets.write_first_dirty(offsets)

    def close(
        self,
        high_watermarks: Mapping[TopicPartition, int],
        *,
        now_ms: int,
        broker_epoch: int = UNKNOWN_BROKER_EPOCH,
        opens_all: bool = True,
    ) -> None:
        """Closes all logs and writes the clean-shutdown file, so that the next start scans nothing.

        After an unclean start the file requires that every log was opened, which recovers it. With
        `opens_all` the others are opened now, with the default configuration of the directory.

        A disk error prevents the clean-shutdown file. If a log was not opened because of lost data,
        nothing is changed: recovering the other logs would not make the shutdown clean.
        """
        is_refused = self._is_refused and not self.was_clean
        if is_refused or not self.keep_lock():
            self.abandon()  # another broker may use the directory now
            return
        try:
            all_opened = self.was_clean or (
                self._open_all(now_ms) if opens_all else None not in self._logs.values()
            )
            all_closed = self._close_logs()
            self.checkpoint(high_watermarks)
            if all_opened and all_closed:
                mark_clean_shutdown(self._filesystem, self.path, broker_epoch)
        except OSError as problem:
            logger.warning(
                "%s: shutdown is not clean (%s); the next start runs recovery", self.path, problem
            )
        finally:
            self._offsets.end()
            self._lock.release()

    def _open_all(self, now_ms: int) -> bool:
        """Opens every log, because the clean-shutdown file covers all of them."""
        all_opened = True
        for partition in self._logs:
            try:
                self.log(partition, now_ms=now_ms)
            except OSError as problem:
                logger.warning(
                    "%s-%d: log cannot be opened (%s); the next start runs recovery",
                    *partition,
                    problem,
                )
                all_opened = False
        return all_opened

    def _close_logs(self) -> bool:
        """Closes all logs; returns False if one failed, which makes the shutdown unclean."""
        opened = list(self._opened())
        changed = sum(log.is_changed for _, log in opened)
        at_once = changed > SYNC_EACH_MAX and self._filesystem.can_sync_all
        failed = []
        for partition, log in opened:
            try:
                log.close(durable=not at_once)
            except OSError as problem:
                logger.warning(
                    "%s-%d: log cannot be closed (%s); the next start runs recovery",
                    *partition,
                    problem,
                )
                log.abandon()
                failed.append(partition)
        if at_once:
            self._filesystem.sync_all()
        return not failed

    def abandon(self) -> None:
        """Closes everything without writing, like a crash."""
        for _, log in self._opened():
            log.abandon()
        self._offsets.end()
        self._lock.release()

    # --- implementation

    def _opened(self) -> Iterator[tuple[TopicPartition, Log]]:
        return ((partition, log) for partition, log in self._logs.items() if log is not None)

    def _open_log(
        self,
        partition: TopicPartition,
        configuration: LogConfiguration,
        now_ms: int,
        *,
        was_clean: bool,
        open_files: OpenFiles | None,
    ) -> Log:
        try:
            log = Log.open(
                self._folder(partition),
                configuration=configuration,
                was_clean=was_clean,
                now_ms=now_ms,
                recovery_point=self._offsets.recovery_points.get(partition, 0),
                log_start_offset=self._offsets.log_starts.get(partition, 0),
                open_files=self._open_files if open_files is None else open_files,
                pending_deletions=self._pending_deletions,
            )
        except FlushedDataLost:
            self._is_refused = True
            raise
        self._logs[partition] = log
        return log

    def _folder(self, partition: TopicPartition) -> str:
        return f"{self.path}/{partition[0]}-{partition[1]}"

    def _find_partitions(self) -> list[TopicPartition]:
        partitions = []
        for name in self._filesystem.list_directory(self.path):
            partition = partition_named(name)
            if partition is not None and holds_log(self._filesystem, f"{self.path}/{name}"):
                partitions.append(partition)
            elif name.endswith(DELETED_SUFFIX):
                self._pending_deletions.schedule_directory(f"{self.path}/{name}", due_ms=0)
        return sorted(partitions)

    def _read_topic_id(self, partition: TopicPartition) -> bytes | None:
        path = f"{self._folder(partition)}/{PARTITION_METADATA_FILE}"
        try:
            return PartitionMetadata.decode(read_file(self._filesystem, path)).topic_id
        except FileNotFoundError:
            return None
        except MalformedCheckpoint as problem:
            logger.warning(
                "%s: topic id is corrupt (%s); assigned to the topic by name", path, problem
            )
            return None


def partition_named(folder: str) -> TopicPartition | None:
    """Returns the partition that a folder name `topic-number` stands for, or None."""
    topic, _, number = folder.rpartition("-")
    return (topic, int(number)) if topic and number.isdecimal() else None


def holds_log(filesystem: FileSystem, folder: str) -> bool:
    """Returns whether a folder contains a partition, and not something else with such a name."""
    try:
        with suppress(FileNotFoundError):
            filesystem.size_and_age(f"{folder}/{PARTITION_METADATA_FILE}")
            return True
        return any(map(is_segment, filesystem.list_directory(folder)))
    except NotADirectoryError:
        return False


def _claim(filesystem: FileSystem, path: str, own: MetaProperties) -> bytes:
    """Checks that the directory belongs to this node, or claims a new one; returns its id."""
    name = f"{path}/{META_PROPERTIES_FILE}"
    try:
        found = MetaProperties.decode(read_file(filesystem, name))
    except FileNotFoundError:
        names = filter(partition_named, filesystem.list_directory(path))
        held = [it for it in names if holds_log(filesystem, f"{path}/{it}")]
        if held:
            raise ForeignLogDirectory(
                f"{name} is missing, but {path} holds partitions "
                f"(number: {len(held)}, first: {min(held)}); restore the file from a "
                "copy, or write one with version=1 and the previous cluster.id, node.id and "
                "directory.id"
            ) from None
        replace_file(filesystem, name, own.encode())
        return own.directory_id
    except MalformedCheckpoint as problem:
        raise ForeignLogDirectory(f"{name} is corrupt: {problem}") from None
    if found.cluster_id != own.cluster_id:
        raise ForeignLogDirectory(
            f"{path} belongs to cluster {found.cluster_id}, this is cluster {own.cluster_id}"
        )
    if found.node_id != own.node_id:
        raise ForeignLogDirectory(
            f"{path} belongs to node {found.node_id}, this is node {own.node_id}"
        )
    return found.directory_id
