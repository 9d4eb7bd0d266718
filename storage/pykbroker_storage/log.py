"""The log of one partition: a single writer appends at its end, readers start at any offset."""

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple, Self

from pykbroker_protocol.records.batch import NO_PRODUCER_ID, RecordBatch
from pykbroker_storage.batch_preparation import next_replicated, parse_replicated, stamp_batches
from pykbroker_storage.configuration import CleanupPolicy, LogConfiguration, TimestampSource
from pykbroker_storage.deletion import PendingDeletions
from pykbroker_storage.filesystem import (
    LOCAL_DISK,
    DiskFull,
    FileSystem,
    FlushFailed,
    NotCached,
    sync_file,
)
from pykbroker_storage.flushing import LogFlusher
from pykbroker_storage.mapped_file import OpenFiles
from pykbroker_storage.partition_files import (
    DeferredSnapshot,
    load_producers,
    save_leader_epochs,
    save_producers,
    truncate_producers,
)
from pykbroker_storage.producer_state import ProducerStates
from pykbroker_storage.producer_truncation import producers_in
from pykbroker_storage.read_view import ReadView
from pykbroker_storage.recovery import LoadedLog, load
from pykbroker_storage.retention import count_expired
from pykbroker_storage.segment import CompactedBytes, LogSlice, Segment
from pykbroker_storage.segments import Segments, is_roll_due
from pykbroker_storage.transaction_index import AbortedTransaction, MalformedTransactionIndex
from pykbroker_storage.verification import verify_batches

logger = logging.getLogger(__name__)

NO_TIMESTAMP = -1
PRODUCERS_SAVED_AT_ONCE_MAX = 2_000
"""With more producers a roll defers the snapshot: 300,000 would block for 0.3 s."""
DESCRIPTORS_MAX = 64
"""Descriptors of a log that is opened outside of a log directory."""


class OffsetOutOfRange(Exception):
    """The offset is below the log start offset or above the log end offset."""


class LogClosed(Exception):
    """The log was closed or deleted; look up the partition again."""


class AppendResult(NamedTuple):
    """Offsets and append time of appended records, and the log start offset."""

    first_offset: int
    last_offset: int
    log_append_time_ms: int  # -1 unless the topic uses LogAppendTime
    log_start_offset: int


class Log:
    """A log with blocking methods and one owner; only `flush` may run on another thread."""

    __slots__ = (
        "_changed",
        "_closed",
        "_filesystem",
        "_flusher",
        "_last_flush_ms",
        "_layout_version",
        "_needs_reload",
        "_open_files",
        "_segments",
        "_truncations",
        "configuration",
        "deferred_snapshot",
        "directory",
        "flush_failure",
        "leader_epochs",
        "log_end_offset",
        "log_start_offset",
        "producers",
        "recovery_point",
    )

    @classmethod
    def open(
        cls,
        directory: os.PathLike[str] | str,
        *,
        configuration: LogConfiguration,
        was_clean: bool,
        now_ms: int,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        open_files: OpenFiles | None = None,
        pending_deletions: PendingDeletions | None = None,
    ) -> Self:
        """Opens the log in a directory; creates a new one if the directory is empty.

        After a clean shutdown nothing is scanned. Otherwise all batches above the recovery point
        are verified, and the log is truncated after the last valid one. All logs of a process
        should share one `open_files`, which bounds their descriptors.
        """
        if open_files is None:
            open_files = OpenFiles(LOCAL_DISK, DESCRIPTORS_MAX)
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
        return cls(loaded, configuration, pending_deletions, now_ms=now_ms)

    def __init__(
        self,
        loaded: LoadedLog,
        configuration: LogConfiguration,
        pending_deletions: PendingDeletions,
        *,
        now_ms: int,
    ) -> None:
        self.directory = loaded.directory
        self.configuration = configuration
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.segments[-1].next_offset
        self.recovery_point = loaded.recovery_point  # all records below it are flushed
        self.leader_epochs = loaded.leader_epochs
        self.producers = loaded.producers
        self._filesystem = loaded.open_files.filesystem
        self._open_files = loaded.open_files
        self._layout_version = 0
        """Incremented when segments are truncated, replaced or deleted; see `merge`."""
        self._needs_reload = False
        """True while a truncation has not been completed, for example after a disk error."""
        self._truncations = 0
        """Compared by a flush in a thread: a truncation can have replaced the records."""
        self._segments = Segments(
            loaded.directory,
            loaded.segments,
            open_files=loaded.open_files,
            pending_deletions=pending_deletions,
        )
        # Set by a roll; background upkeep encodes and writes it.
        self.deferred_snapshot: DeferredSnapshot | None = None
        self._changed = loaded.was_changed
        self._closed = False
        self._flusher = LogFlusher(self._filesystem, loaded.directory, self._segments)
        self._last_flush_ms = now_ms
        self.flush_failure: str | None = None  # appends raise until a flush succeeds

    # --- appends

    def append(
        self,
        records: bytearray | memoryview,
        batches: Sequence[RecordBatch],
        leader_epoch: int,
        now_ms: int,
    ) -> AppendResult:
        """Appends as leader: assigns offsets to whole, validated batches, in place.

        An exception leaves the log unchanged. If `is_flush_due`, the caller flushes before it
        acknowledges the records.
        """
        log_append_time_ms = NO_TIMESTAMP
        if self.configuration.message_timestamp_type is TimestampSource.LOG_APPEND_TIME:
            log_append_time_ms = now_ms
        first_offset = self.log_end_offset
        next_offset = stamp_batches(
            records, batches, first_offset, leader_epoch, log_append_time_ms
        )
        self._write(records, batches, now_ms)
        return AppendResult(
            first_offset, next_offset - 1, log_append_time_ms, self.log_start_offset
        )

    def append_replicated(
        self, records: bytes | bytearray | memoryview, *, leader_epoch: int, now_ms: int
    ) -> AppendResult:
        """Appends batches as received from the leader of `leader_epoch`.

        Raises `InvalidReplicatedBatch` for invalid batches; the log is unchanged then.
        """
        batches = parse_replicated(
            records,
            log_end_offset=self.log_end_offset,
            latest_epoch=self.leader_epochs.latest_epoch,
            leader_epoch=leader_epoch,
            allows_gaps=not self.configuration.forbids_data_loss,
        )
        self._write(records, batches, now_ms)
        first_offset, last_offset = batches[0].base_offset, batches[-1].last_offset
        return AppendResult(first_offset, last_offset, NO_TIMESTAMP, self.log_start_offset)

    def append_replicated_slice(
        self, records: memoryview, *, leader_epoch: int, batches_max: int, now_ms: int
    ) -> int:
        """Appends the first batches of a Fetch response; returns their size in bytes.

        0 means that the rest of the response cannot be appended: it is an incomplete batch, or
        later than `leader_epoch`. Otherwise like `append_replicated`.
        """
        batches = next_replicated(
            records,
            log_end_offset=self.log_end_offset,
            latest_epoch=self.leader_epochs.latest_epoch,
            leader_epoch=leader_epoch,
            allows_gaps=not self.configuration.forbids_data_loss,
            batches_max=batches_max,
        )
        if not batches:
            return 0
        size_bytes = sum([batch.size_bytes for batch in batches])
        self._write(records[:size_bytes], batches, now_ms)
        return size_bytes

    def _write(
        self, records: bytes | bytearray | memoryview, batches: Sequence[RecordBatch], now_ms: int
    ) -> None:
        if self._closed:
            raise LogClosed(self.directory)
        if self.flush_failure is not None:
            raise FlushFailed(self.flush_failure)
        if self._needs_reload:
            self._reload_after_truncation()
        configuration = self.configuration
        active = self._segments.active
        if is_roll_due(active, configuration, len(records), batches[-1], now_ms):
            self._begin_segment(batches[0].base_offset, now_ms)
            active = self._segments.active
        latest_epoch = self.leader_epochs.latest_epoch
        for batch in batches:
            epoch = batch.partition_leader_epoch
            if epoch != latest_epoch and epoch >= 0:
                self._begin_epoch(epoch, batch.base_offset)
                latest_epoch = epoch
        active.append(records, batches, configuration.index_interval_bytes)
        for batch in batches:
            if batch.producer_id != NO_PRODUCER_ID:
                ended = self.producers.update(batch)
                if ended is not None and ended.is_aborted:
                    self._add_aborted(ended.as_aborted())
                    self._flusher.is_directory_flushed = False
        self.log_end_offset = active.next_offset
        self._changed = True

    def _begin_epoch(self, epoch: int, start_offset: int) -> None:
        if self.leader_epochs.assign(epoch, start_offset):
            try:
                self._save_leader_epochs()
            except OSError:
                self.leader_epochs.truncate_from_end(start_offset)  # the next append retries
                raise

    def roll(self, now_ms: int) -> None:
        """Seals the active segment, if it has records, and starts a new one."""
        self._raise_if_closed()
        if self._segments.active.size_bytes:
            self._begin_segment(self.log_end_offset, now_ms)

    def _begin_segment(self, base_offset: int, now_ms: int) -> None:
        self._changed = True
        if self._segments.active.size_bytes:
            self._segments.active.finish()
            if len(self.producers) <= PRODUCERS_SAVED_AT_ONCE_MAX:
                self._save_producers()
            else:
                self.deferred_snapshot = DeferredSnapshot(
                    self._filesystem, self.directory, self.producers, self.log_end_offset
                )
        self._begin_empty_segment(base_offset, now_ms)

    def _begin_empty_segment(self, base_offset: int, now_ms: int) -> None:
        self._segments.begin(base_offset, now_ms)
        self._flusher.is_directory_flushed = False

    # --- reads

    def read(
        self, offset: int, *, bytes_max: int, end_offset: int, first_batch_whole: bool = True
    ) -> LogSlice | None:
        """Returns whole batches from the one with `offset` to the last one below `end_offset`.

        They come from one segment and have at most `bytes_max`, or more if only the first batch is
        returned and it must be whole. Returns None if there are none. The view stays valid after
        truncation or deletion.
        """
        if self._closed:
            raise LogClosed(self.directory)
        self._raise_if_outside(offset)
        active = self._segments.active
        return (active if offset >= active.base_offset else self._segments).read(
            offset,
            bytes_max=bytes_max,
            end_offset=end_offset,
            first_batch_whole=first_batch_whole,
        )

    def read_cached(
        self, offset: int, *, bytes_max: int, end_offset: int, first_batch_whole: bool = True
    ) -> LogSlice | None:
        """Like `read`, but raises `NotCached` instead of waiting for the disk."""
        open_files = self._open_files
        open_files.may_block = False
        try:
            return self.read(
                offset,
                bytes_max=bytes_max,
                end_offset=end_offset,
                first_batch_whole=first_batch_whole,
            )
        finally:
            open_files.may_block = True

    def aborted_cached(self, start_offset: int, end_offset: int) -> Sequence[AbortedTransaction]:
        """Like `aborted_transactions`, but raises `NotCached` instead of waiting for the disk."""
        open_files = self._open_files
        open_files.may_block = False
        try:
            return self._segments.aborted_transactions(start_offset, end_offset)
        finally:
            open_files.may_block = True

    def bytes_between(self, start_offset: int, end_offset: int) -> int | None:
        """Returns the size of the batches between two offsets.

        Returns None if that needs the disk, or if they are in several segments.
        """
        segment = self._segments.since(start_offset)[0]
        open_files = self._open_files
        open_files.may_block = False
        try:
            count, next_offset = segment.bytes_between(start_offset, end_offset)
        except NotCached:
            return None
        finally:
            open_files.may_block = True
        return count if next_offset >= end_offset else None

    def read_view(self, offset: int | None = None) -> ReadView:
        """Returns a view of the log from an offset on, for reads on one thread; see `merge`."""
        self._raise_if_closed()
        if offset is None:
            offset = self.log_start_offset
        self._raise_if_outside(offset)
        return self._segments.read_view(
            offset, log_start_offset=self.log_start_offset, layout_version=self._layout_version
        )

    def merge(self, view: ReadView) -> bool:
        """Adopts what a thread loaded and verified in its view of the log.

        Returns False if segments were truncated, replaced or deleted meanwhile: the result of the
        read may be wrong.
        """
        if self._closed or view.layout_version != self._layout_version:
            return False
        self._segments.merge(view)
        return True

    def aborted_transactions(
        self, start_offset: int, end_offset: int
    ) -> Sequence[AbortedTransaction]:
        """Returns aborted transactions with records between two offsets (read_committed)."""
        try:
            return self._segments.aborted_transactions(start_offset, end_offset)
        except MalformedTransactionIndex as problem:
            self._rebuild_aborted(problem)
            return self._segments.aborted_transactions(start_offset, end_offset)

    def _add_aborted(self, transaction: AbortedTransaction) -> None:
        """Adds a transaction that the last batch aborts."""
        try:
            self._segments.add_aborted(transaction)
        except MalformedTransactionIndex as problem:
            self._rebuild_aborted(problem)  # includes this marker

    def _rebuild_aborted(self, problem: MalformedTransactionIndex) -> None:
        corrupt_from = self._segments.first_corrupt_transaction_index()
        logger.warning(
            "%s: transaction index is corrupt (%s); rebuilding .txnindex files from offset %d",
            self.directory,
            problem,
            corrupt_from,
        )
        self._load_producers(aborted_from=corrupt_from)

    def verify(self) -> Iterator[str]:
        """Reads all segments; yields one message per segment with a corrupt batch."""
        for segment in list(self._segments):
            corruption = verify_batches(segment, segment.size_bytes)
            if corruption is not None:
                yield f"{segment.file.path}, position {corruption.position}: {corruption.reason}"

    @property
    def size_bytes(self) -> int:
        return self._segments.size_bytes

    @property
    def segment_count(self) -> int:
        return len(self._segments)

    # --- flushes

    def flush(self, upto: int | None = None) -> None:
        """Flushes all records below `upto` (default: all records).

        Raises FlushFailed if the disk rejects the bytes. Appends then raise until a later flush
        has rewritten them, because a successful fsync alone would prove nothing.
        """
        if self._closed:
            return
        if upto is None or self.flush_failure is not None:
            upto = self.log_end_offset
        if upto <= self.recovery_point and self._flusher.is_directory_flushed:
            return
        truncations = self._truncations
        try:
            self._flusher.flush(
                self.recovery_point, upto, after_failure=self.flush_failure is not None
            )
        except FlushFailed as failure:
            self.flush_failure = str(failure)
            raise
        except FileNotFoundError:
            if not self._closed:
                raise  # else the log was closed meanwhile
        self.flush_failure = None
        if truncations == self._truncations:
            self.recovery_point = max(self.recovery_point, upto)

    @property
    def is_flush_due(self) -> bool:
        """True if `flush.messages` or more records are not flushed."""
        return self.log_end_offset - self.recovery_point >= self.configuration.flush_messages

    def flush_due(self, now_ms: int) -> int | None:
        """Returns the offset up to which a flush is due now, or None.

        All records if `flush.ms` has passed, `flush.messages` is reached or the last flush failed.
        Otherwise those in sealed segments, so that recovery stays short.
        """
        if self.is_flush_due or self.flush_failure is not None:
            return self.log_end_offset
        if now_ms - self._last_flush_ms >= self.configuration.flush_ms:
            self._last_flush_ms = now_ms
            if self.recovery_point < self.log_end_offset:
                return self.log_end_offset
        if self.recovery_point < self._segments.active.base_offset:
            return self._segments.active.base_offset
        return None

    # --- deletion and truncation

    def advance_log_start(self, offset: int, now_ms: int) -> None:
        """Sets the log start offset and deletes segments below it (DeleteRecords)."""
        self._raise_if_closed()
        self._raise_if_outside(offset)
        self.log_start_offset = offset
        self._delete_oldest(self._segments.count_below(offset), now_ms)

    def enforce_retention(self, now_ms: int, high_watermark: int | None = None) -> int:
        """Deletes expired segments below the high watermark; returns their number.

        If the active segment has expired, too, a new one replaces it. Works on a full disk.
        """
        configuration = self.configuration
        if self._closed or CleanupPolicy.DELETE not in configuration.cleanup_policy:
            return 0
        limit = self.log_end_offset if high_watermark is None else high_watermark
        ages = [age for age in self._segments.ages() if age.next_offset <= limit]
        count = count_expired(
            ages, configuration, log_start_offset=self.log_start_offset, now_ms=now_ms
        )
        sealed = len(self._segments) - 1
        self._delete_oldest(min(count, sealed), now_ms)
        if count > sealed:
            self._begin_after_expired(now_ms)
            self._delete_oldest(1, now_ms)
        return count

    def _begin_after_expired(self, now_ms: int) -> None:
        """Starts a new active segment after one that is deleted and needs no complete indexes.

        If the disk is too full for the snapshot, a crash loses producers without records, which
        would expire anyway.
        """
        self._changed = True
        with suppress(DiskFull):
            self._segments.active.finish()
            self._save_producers()
        self._begin_empty_segment(self.log_end_offset, now_ms)

    def truncate_to(self, offset: int, now_ms: int) -> None:
        """Removes all batches with records at `offset` or above, which the leader does not have.

        Checkpoint the directory afterwards: the recovery point in the file may be too high.
        """
        self._raise_if_closed()
        if self._needs_reload:
            self._reload_after_truncation()
        if offset >= self.log_end_offset:
            # A leader that appended nothing has an epoch that starts at the log end.
            if self.leader_epochs.truncate_from_end(self.log_end_offset):
                self._save_leader_epochs()
            return
        if offset <= self._segments.base_offset:
            self.truncate_fully_and_start_at(offset, now_ms)
            return
        removed = producers_in(self._segments.since(offset), offset)
        self._layout_version += 1
        self._needs_reload = True
        self._segments.truncate_to(offset, self._due_ms(now_ms))
        self._reload_after_truncation(removed)

    def truncate_fully_and_start_at(self, offset: int, now_ms: int) -> None:
        """Deletes all records and continues with an empty log at `offset`."""
        self._raise_if_closed()
        self._layout_version += 1
        self._needs_reload = True
        self._segments.restart_at(offset, due_ms=self._due_ms(now_ms), now_ms=now_ms)
        self._flusher.is_directory_flushed = False
        self.log_start_offset = offset
        self.leader_epochs.truncate_from_end(0)  # a log without records cannot diverge
        self._reload_after_truncation()

    def _reload_after_truncation(self, removed: set[int] | None = None) -> None:
        """Adapts the state of the log; `removed` has the producers of removed batches, if known."""
        self._changed = True
        self._truncations += 1
        self.deferred_snapshot = None
        self.log_end_offset = self._segments.active.next_offset
        self.log_start_offset = min(self.log_start_offset, self.log_end_offset)
        self.recovery_point = min(self.recovery_point, self.log_end_offset)
        self.producers = self._producers_without(removed)
        self.leader_epochs.truncate_from_end(self.log_end_offset)
        self.leader_epochs.truncate_from_start(self.log_start_offset)
        self._save_leader_epochs()
        self._needs_reload = False

    def _producers_without(self, removed: set[int] | None) -> ProducerStates:
        if removed is not None:
            with suppress(MalformedTransactionIndex):  # else all batches are read again
                return truncate_producers(
                    self._filesystem, self.directory, list(self._segments), self.producers, removed
                )
        return self._load_producers(aborted_from=self._segments.active.base_offset)

    def _load_producers(self, *, aborted_from: int) -> ProducerStates:
        return load_producers(
            self._filesystem, self.directory, list(self._segments), aborted_from=aborted_from
        )

    def _delete_oldest(self, count: int, now_ms: int) -> None:
        if count:
            self._layout_version += 1
            try:
                self._segments.drop_oldest(count, self._due_ms(now_ms))
            finally:
                self.log_start_offset = max(self.log_start_offset, self._segments.base_offset)
        if self.leader_epochs.truncate_from_start(self.log_start_offset):
            with suppress(DiskFull):  # deletion must succeed; the next start truncates again
                self._save_leader_epochs()

    def _due_ms(self, now_ms: int) -> int:
        return now_ms + self.configuration.file_delete_delay_ms

    # --- compaction

    @property
    def filesystem(self) -> FileSystem:
        return self._filesystem

    def segments(self) -> list[Segment]:
        """Returns all segments, the active one last."""
        return list(self._segments)

    def holds(self, segments: Sequence[Segment]) -> bool:
        """Returns whether these segments still exist, adjacent and sealed."""
        return not self._closed and self._segments.holds(segments)

    def replace(self, segments: Sequence[Segment], compacted: CompactedBytes, now_ms: int) -> None:
        """Replaces segments by the output of compaction; check `holds` first."""
        assert self.holds(segments), "segments to replace no longer exist"
        self._layout_version += 1
        self._segments.replace(segments, compacted, self._due_ms(now_ms))
        self._flusher.is_directory_flushed = False

    # --- leader epochs and producer snapshots

    def _save_leader_epochs(self) -> None:
        self._flusher.is_directory_flushed = False
        save_leader_epochs(self._filesystem, self.directory, self.leader_epochs)

    def _save_producers(self, *, durable: bool = False) -> None:
        path = save_producers(self._filesystem, self.directory, self.producers, self.log_end_offset)
        if durable:
            sync_file(self._filesystem, path)

    def finish_snapshot(self, snapshot: DeferredSnapshot, *, is_written: bool) -> None:
        """Keeps a deferred snapshot unless the log was truncated meanwhile."""
        is_current = snapshot is self.deferred_snapshot
        if is_current:
            self.deferred_snapshot = None
        begins_segment = any(it.base_offset == snapshot.offset for it in self._segments)
        snapshot.finish(keep=is_written and is_current and begins_segment)

    # --- closing

    @property
    def is_closed(self) -> bool:
        """True if the files may be deleted or belong to a new log with the same name."""
        return self._closed

    def _raise_if_outside(self, offset: int) -> None:
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRange(
                f"offset {offset} is not in {self.log_start_offset}..{self.log_end_offset}"
            )

    def _raise_if_closed(self) -> None:
        if self._closed:
            raise LogClosed(self.directory)

    @property
    def is_changed(self) -> bool:
        """True if `close` has something to write."""
        return self._changed and self._segments.active.size_bytes > 0

    def close(self, *, durable: bool = True) -> None:
        """Writes indexes and the producer snapshot for a fast next start, and closes the files.

        To close thousands of logs, pass `durable=False` and sync the disk once afterwards.
        """
        if self._closed:
            return
        if self.is_changed:
            self._segments.active.finish()
            self._save_producers(durable=durable)
            if durable:
                self._segments.active.flush_indexes()
                self._flusher.is_directory_flushed = False
                self.flush()
            else:
                self.recovery_point = self.log_end_offset
        self.abandon()

    def abandon(self) -> None:
        """Closes the files without writing, for example before deletion; views stay valid."""
        self._closed = True
        self.deferred_snapshot = None
        self._segments.close()
