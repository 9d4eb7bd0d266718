"""One partition's log: appended at its end by a single writer, read from any offset."""

import os
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Self

from pykbroker_protocol.records.batch import (
    LOG_APPEND_TIME_FLAG,
    NO_PRODUCER_ID,
    RecordBatch,
    iterate_batches,
    stamp,
    stamp_log_append_time,
)
from pykbroker_storage.configuration import CleanupPolicy, LogConfiguration, TimestampSource
from pykbroker_storage.deletion import PendingDeletions
from pykbroker_storage.filesystem import LOCAL_DISK, FileSystem, sync_file
from pykbroker_storage.mapped_file import OpenFiles
from pykbroker_storage.partition_files import load_producers, save_leader_epochs, save_producers
from pykbroker_storage.recovery import LoadedLog, load
from pykbroker_storage.retention import SegmentAge, count_expired
from pykbroker_storage.rolling import is_roll_due
from pykbroker_storage.segment import SEGMENT_SUFFIXES, LogSlice, Segment, create_segment
from pykbroker_storage.time_lookup import TimedOffset, first_at_or_after, latest_record

NO_TIMESTAMP = -1
# What a log alone, outside of a log directory, holds open.
OPEN_FILES_MAX = 64


class OffsetOutOfRange(Exception):
    """The offset lies before the start or beyond the end of the log."""


class LogClosed(Exception):
    """The log was closed or deleted; whoever holds it should look its partition up again."""


class Appended(NamedTuple):
    first_offset: int
    last_offset: int
    log_append_time_ms: int = NO_TIMESTAMP  # -1 unless the topic says LogAppendTime


class Log:
    """Blocking, with one owner; `flush` alone may run on another thread, beside its appends."""

    __slots__ = (
        "_active",
        "_changed",
        "_closed",
        "_last_flush_ms",
        "_names_flushed",
        "_open_files",
        "_pending_deletions",
        "_segments",
        "configuration",
        "directory",
        "leader_epochs",
        "log_end_offset",
        "log_start_offset",
        "producers",
        "recovery_point",
    )

    @classmethod
    def open(
        cls,
        directory: Path | str,
        *,
        configuration: LogConfiguration,
        was_clean: bool,
        now_ms: int,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        open_files: OpenFiles | None = None,
        pending_deletions: PendingDeletions | None = None,
    ) -> Self:
        """The log in a directory, a new one if the directory is empty.

        After a clean end nothing is scanned. Otherwise whatever was not known to be durable is
        checked batch by batch and cut behind the last good one. Give all logs of a process the
        same `open_files`: it bounds their descriptors.
        """
        if open_files is None:
            open_files = OpenFiles(LOCAL_DISK, OPEN_FILES_MAX)
        if pending_deletions is None:
            pending_deletions = PendingDeletions(open_files.filesystem)
        loaded = load(
            os.fspath(directory),
            configuration=configuration,
            open_files=open_files,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            was_clean=was_clean,
            now_ms=now_ms,
        )
        return cls(
            os.fspath(directory),
            loaded,
            configuration=configuration,
            recovery_point=recovery_point,
            open_files=open_files,
            pending_deletions=pending_deletions,
            now_ms=now_ms,
        )

    def __init__(
        self,
        directory: str,
        loaded: LoadedLog,
        *,
        configuration: LogConfiguration,
        recovery_point: int,
        open_files: OpenFiles,
        pending_deletions: PendingDeletions,
        now_ms: int,
    ) -> None:
        self.directory = directory
        self.configuration = configuration
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.segments[-1].next_offset
        self.recovery_point = min(recovery_point, self.log_end_offset)  # durable before it
        self.leader_epochs = loaded.leader_epochs
        self.producers = loaded.producers
        self._segments = loaded.segments
        self._active = loaded.segments[-1]
        self._open_files = open_files
        self._pending_deletions = pending_deletions
        self._changed = loaded.was_changed
        self._closed = False
        self._names_flushed = False
        self._last_flush_ms = now_ms

    # --- writing

    def append(
        self,
        records: bytearray | memoryview,
        batches: Sequence[RecordBatch],
        *,
        leader_epoch: int,
        now_ms: int,
    ) -> Appended:
        """The leader's append: gives whole, validated batches their offsets, in place.

        When it returns they are in the log; an exception leaves the log as it was.
        """
        stamps_time = self.configuration.message_timestamp_type is TimestampSource.LOG_APPEND_TIME
        first_offset = offset = self.log_end_offset
        position = 0
        for batch in batches:
            stamp(records, position, base_offset=offset, partition_leader_epoch=leader_epoch)
            batch.base_offset = offset
            batch.partition_leader_epoch = leader_epoch
            if stamps_time:
                stamp_log_append_time(records, position, now_ms)
                batch.max_timestamp = now_ms
                batch.attributes |= LOG_APPEND_TIME_FLAG
            offset += batch.last_offset_delta + 1
            position += batch.size_bytes
        assert position == len(records), "the batches are not what the records hold"
        self._write(records, batches, now_ms)
        return Appended(first_offset, offset - 1, now_ms if stamps_time else NO_TIMESTAMP)

    def append_replicated(
        self, records: bytes | bytearray | memoryview, *, now_ms: int
    ) -> Appended:
        """The follower's append: the batches have their offsets and epochs already."""
        batches = list(iterate_batches(records))
        offset = self.log_end_offset
        for batch in batches:
            assert batch.base_offset >= offset, f"offset {batch.base_offset} is behind {offset}"
            offset = batch.next_offset
        self._write(records, batches, now_ms)
        return Appended(batches[0].base_offset, offset - 1)

    def _write(
        self, records: bytes | bytearray | memoryview, batches: Sequence[RecordBatch], now_ms: int
    ) -> None:
        if self._closed:
            raise LogClosed(self.directory)
        segment = self._active
        if is_roll_due(segment, self.configuration, len(records), batches, now_ms):
            segment = self.roll(now_ms)
        for batch in batches:
            if 0 <= batch.partition_leader_epoch != self.leader_epochs.latest_epoch:
                self._begin_epoch(batch.partition_leader_epoch, batch.base_offset)
        segment.append(records, batches, self.configuration.index_interval_bytes)
        for batch in batches:
            if batch.producer_id != NO_PRODUCER_ID:
                self.producers.update(batch)
        self.log_end_offset = segment.next_offset
        self._changed = True
        if self.log_end_offset - self.recovery_point >= self.configuration.flush_messages:
            self.flush()

    def _begin_epoch(self, epoch: int, start_offset: int) -> None:
        if self.leader_epochs.assign(epoch, start_offset):
            self._save_leader_epochs()

    def roll(self, now_ms: int) -> Segment:
        """Seals the active segment, if it has records, and begins a new one after it."""
        if not self._active.size_bytes:
            return self._active
        self._changed = True
        self._active.seal()
        self._save_producers()
        self._begin_segment(self.log_end_offset, now_ms)
        return self._active

    def _begin_segment(self, base_offset: int, now_ms: int) -> None:
        segment = create_segment(self.directory, base_offset, self._open_files, now_ms)
        self._segments.append(segment)
        self._active = segment
        self._names_flushed = False

    # --- reading

    def read(
        self, offset: int, *, bytes_max: int, end_offset: int, first_batch_whole: bool = True
    ) -> LogSlice | None:
        """Whole batches from the one that holds `offset` to the last wholly below `end_offset`.

        They are of one segment and at most `bytes_max`, but at least one if the first must be
        whole; None if there are none. The view stays good whatever happens to the log.
        """
        if self._closed:
            raise LogClosed(self.directory)
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRange(
                f"offset {offset} is not in {self.log_start_offset}..{self.log_end_offset}"
            )
        segment = self._active
        if offset >= segment.base_offset:
            return segment.read(
                offset,
                bytes_max=bytes_max,
                end_offset=end_offset,
                first_batch_whole=first_batch_whole,
            )
        for number in range(self._segment_number(offset), len(self._segments)):
            # Compaction may have left nothing at the end of a segment: the next one has it.
            segment = self._segments[number]
            if segment.position_of(offset) < segment.size_bytes:
                return segment.read(
                    offset,
                    bytes_max=bytes_max,
                    end_offset=end_offset,
                    first_batch_whole=first_batch_whole,
                )
        return None

    def offset_at_timestamp(self, timestamp_ms: int) -> TimedOffset | None:
        """The first record at or after a time: what ListOffsets asks for."""
        return first_at_or_after(self._segments, timestamp_ms, self.log_start_offset)

    def latest_timestamp_record(self) -> TimedOffset | None:
        """The record with the largest timestamp, the first of several."""
        return latest_record(self._segments, self.log_start_offset)

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self._segments)

    @property
    def segment_count(self) -> int:
        return len(self._segments)

    def _segment_number(self, offset: int) -> int:
        found = bisect_right(self._segments, offset, key=lambda segment: segment.base_offset) - 1
        return max(found, 0)

    # --- making it durable

    def flush(self, upto: int | None = None) -> None:
        """Makes everything before `upto` (by default: everything) survive a power cut."""
        upto = self.log_end_offset if upto is None else upto
        if upto <= self.recovery_point and self._names_flushed:
            return
        for segment in self._segments[self._segment_number(self.recovery_point) :]:
            if segment.base_offset >= upto:
                break
            try:
                segment.flush_records()
                if segment is not self._active:
                    segment.flush_indexes()
            except FileNotFoundError:
                if segment in self._segments and not self._closed:
                    raise  # else it was deleted meanwhile
        if not self._names_flushed:
            self._names_flushed = True
            self._filesystem.sync_directory(self.directory)
        self.recovery_point = max(self.recovery_point, upto)

    def flush_due(self, now_ms: int) -> int | None:
        """The offset up to which somebody should flush now; None if nothing is due.

        Everything when `flush.ms` has passed, else what lies in sealed segments, so that
        recovery stays short.
        """
        if now_ms - self._last_flush_ms >= self.configuration.flush_ms:
            self._last_flush_ms = now_ms
            if self.recovery_point < self.log_end_offset:
                return self.log_end_offset
        if self.recovery_point < self._active.base_offset:
            return self._active.base_offset
        return None

    # --- letting go of records

    def advance_log_start(self, offset: int, now_ms: int) -> None:
        """Nobody may read before `offset` any longer; whole segments below it are deleted."""
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRange(
                f"offset {offset} is not in {self.log_start_offset}..{self.log_end_offset}"
            )
        self.log_start_offset = offset
        self._drop_epochs_before_start()
        ages = self._ages()
        below = sum(1 for age in ages[:-1] if age.next_offset <= offset)
        self._delete_oldest(below, now_ms)

    def enforce_retention(self, now_ms: int, high_watermark: int | None = None) -> int:
        """Deletes segments too old or too many, below the high watermark; returns how many.

        An active segment that is too old is sealed first.
        """
        configuration = self.configuration
        if CleanupPolicy.DELETE not in configuration.cleanup_policy:
            return 0
        limit = self.log_end_offset if high_watermark is None else high_watermark
        ages = [age for age in self._ages() if age.next_offset <= limit]
        count = count_expired(
            ages, configuration, log_start_offset=self.log_start_offset, now_ms=now_ms
        )
        if count == len(self._segments):
            self.roll(now_ms)
        self._delete_oldest(count, now_ms)
        return count

    def truncate_to(self, offset: int, now_ms: int) -> None:
        """Removes every batch that reaches to `offset` or beyond: whoever was leader had others."""
        if offset >= self.log_end_offset:
            return
        if offset <= self._segments[0].base_offset:
            self.truncate_fully_and_start_at(offset, now_ms)
            return
        keep = self._segment_number(offset) + 1
        for segment in self._segments[keep:]:
            self._bury(segment, now_ms)
        del self._segments[keep:]
        self._active = self._segments[-1]
        self._active.truncate_to_offset(offset)
        self._reload_after_truncation()

    def truncate_fully_and_start_at(self, offset: int, now_ms: int) -> None:
        """Forgets all records: the log begins anew, empty, at `offset`."""
        for segment in self._segments:
            self._bury(segment, now_ms)
        self._segments.clear()
        self._begin_segment(offset, now_ms)
        self.log_start_offset = offset
        self._reload_after_truncation()

    def _reload_after_truncation(self) -> None:
        self._changed = True
        self.log_end_offset = self._active.next_offset
        self.log_start_offset = min(self.log_start_offset, self.log_end_offset)
        self.recovery_point = min(self.recovery_point, self.log_end_offset)
        self.leader_epochs.truncate_from_end(self.log_end_offset)
        self._drop_epochs_before_start()
        self.producers = load_producers(
            self._filesystem, self.directory, self._segments, self.log_start_offset
        )

    def _drop_epochs_before_start(self) -> None:
        self.leader_epochs.truncate_from_start(self.log_start_offset)
        self._save_leader_epochs()

    def _delete_oldest(self, count: int, now_ms: int) -> None:
        if not count:
            return
        for segment in self._segments[:count]:
            self._bury(segment, now_ms)
        del self._segments[:count]
        self.log_start_offset = max(self.log_start_offset, self._segments[0].base_offset)
        self._drop_epochs_before_start()

    def _bury(self, segment: Segment, now_ms: int) -> None:
        segment.file.close()
        due_ms = now_ms + self.configuration.file_delete_delay_ms
        for suffix in SEGMENT_SUFFIXES:
            self._pending_deletions.bury_file(segment.path(suffix), due_ms)

    def _ages(self) -> list[SegmentAge]:
        return [
            SegmentAge(segment.next_offset, segment.size_bytes, segment.largest_timestamp_ms)
            for segment in self._segments
        ]

    # --- what lies beside the segments

    def _save_leader_epochs(self) -> None:
        save_leader_epochs(self._filesystem, self.directory, self.leader_epochs)

    def _save_producers(self, *, durable: bool = False) -> None:
        path = save_producers(self._filesystem, self.directory, self.producers, self.log_end_offset)
        if durable:
            sync_file(self._filesystem, path)

    @property
    def _filesystem(self) -> FileSystem:
        return self._open_files.filesystem

    @property
    def is_changed(self) -> bool:
        """Whether closing has something to write."""
        return self._changed

    # --- the end

    def close(self, *, durable: bool = True) -> None:
        """Writes what makes the next start quick, and closes the files.

        Whoever closes thousands leaves out `durable` and syncs the disk once.
        """
        if self._closed:
            return
        if self._changed and self._active.size_bytes:
            self._active.seal()
            self._save_producers(durable=durable)
            if durable:
                self._active.flush_indexes()
                self._names_flushed = False
                self.flush()
            else:
                self.recovery_point = self.log_end_offset
        self.abandon()

    def abandon(self) -> None:
        """Closes the files and writes nothing, as before a deletion; views stay good."""
        self._closed = True
        for segment in self._segments:
            segment.file.close()
