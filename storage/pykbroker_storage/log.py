"""One partition's log: appended at its end by a single writer, read from any offset."""

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple, Self

from pykbroker_protocol.records.batch import NO_PRODUCER_ID, RecordBatch, iterate_batches
from pykbroker_storage.configuration import CleanupPolicy, LogConfiguration, TimestampSource
from pykbroker_storage.deletion import PendingDeletions
from pykbroker_storage.filesystem import (
    LOCAL_DISK,
    DiskFull,
    FileSystem,
    FlushFailed,
    NotCached,
    directory_of,
    sync_file,
)
from pykbroker_storage.mapped_file import OpenFiles
from pykbroker_storage.partition_files import (
    DeferredSnapshot,
    flush_small_files,
    load_producers,
    save_leader_epochs,
    save_producers,
)
from pykbroker_storage.producer_state import ProducerStates
from pykbroker_storage.read_view import ReadView
from pykbroker_storage.recovery import LoadedLog, load
from pykbroker_storage.retention import count_expired
from pykbroker_storage.rolling import is_roll_due
from pykbroker_storage.segment import CompactedBytes, LogSlice, Segment
from pykbroker_storage.segments import Segments
from pykbroker_storage.stamping import stamp_batches
from pykbroker_storage.transaction_index import AbortedTransaction, MalformedTransactionIndex
from pykbroker_storage.verification import walk

logger = logging.getLogger(__name__)

NO_TIMESTAMP = -1
PRODUCERS_SAVED_AT_ONCE_MAX = 2_000
"""A roll with more leaves their snapshot for later: 300,000 would take 0.3 s."""
# What a log alone, outside of a log directory, uses.
DESCRIPTORS_MAX = 64


class OffsetOutOfRange(Exception):
    """The offset lies before the start or beyond the end of the log."""


class LogClosed(Exception):
    """The log was closed or deleted; whoever holds it should look its partition up again."""


class AppendResult(NamedTuple):
    """Where records have come to lie, in a log that starts where it does."""

    first_offset: int
    last_offset: int
    log_append_time_ms: int  # -1 unless the topic says LogAppendTime
    log_start_offset: int


class Log:
    """Blocking, with one owner; `flush` alone may run on another thread, beside its appends."""

    __slots__ = (
        "_changed",
        "_closed",
        "_filesystem",
        "_last_flush_ms",
        "_layout_version",
        "_names_flushed",
        "_open_files",
        "_segments",
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
        """The log in a directory, a new one if the directory is empty.

        After a clean end nothing is scanned. Otherwise whatever was not known to be durable is
        checked batch by batch and cut behind the last good one. Give all logs of a process the
        same `open_files`: it bounds their descriptors.
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
        self.recovery_point = loaded.recovery_point  # everything before it is durable
        self.leader_epochs = loaded.leader_epochs
        self.producers = loaded.producers
        self._filesystem = loaded.open_files.filesystem
        self._open_files = loaded.open_files
        self._layout_version = 0
        """How often segments were cut, replaced or deleted: what was read before may be wrong."""
        self._segments = Segments(
            loaded.directory,
            loaded.segments,
            open_files=loaded.open_files,
            pending_deletions=pending_deletions,
        )
        # Set when a segment begins; the upkeep encodes and writes it.
        self.deferred_snapshot: DeferredSnapshot | None = None
        self._changed = loaded.was_changed
        self._closed = False
        self._names_flushed = False
        self._last_flush_ms = now_ms
        self.flush_failure: str | None = None  # until a flush succeeds, appends are refused

    # --- writing

    def append(
        self,
        records: bytearray | memoryview,
        batches: Sequence[RecordBatch],
        leader_epoch: int,
        now_ms: int,
    ) -> AppendResult:
        """The leader's append: gives whole, validated batches their offsets, in place.

        When it returns they are in the log; an exception leaves the log as it was. The caller
        flushes if `is_flush_due`, before it acknowledges the records.
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
        self, records: bytes | bytearray | memoryview, *, now_ms: int
    ) -> AppendResult:
        """The follower's append: the batches have their offsets and epochs already."""
        batches = list(iterate_batches(records))
        offset = self.log_end_offset
        for batch in batches:
            assert batch.base_offset >= offset, f"offset {batch.base_offset} is behind {offset}"
            offset = batch.next_offset
        self._write(records, batches, now_ms)
        return AppendResult(batches[0].base_offset, offset - 1, NO_TIMESTAMP, self.log_start_offset)

    def _write(
        self, records: bytes | bytearray | memoryview, batches: Sequence[RecordBatch], now_ms: int
    ) -> None:
        if self._closed:
            raise LogClosed(self.directory)
        if self.flush_failure is not None:
            raise FlushFailed(self.flush_failure)
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
                    self._note_aborted(ended.as_aborted())
                    self._names_flushed = False
        self.log_end_offset = active.next_offset
        self._changed = True

    def _begin_epoch(self, epoch: int, start_offset: int) -> None:
        if self.leader_epochs.assign(epoch, start_offset):
            try:
                self._save_leader_epochs()
            except OSError:
                self.leader_epochs.truncate_from_end(start_offset)  # the next append tries again
                raise

    def roll(self, now_ms: int) -> None:
        """Seals the active segment, if it has records, and begins a new one after it."""
        self._refuse_if_closed()
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
        self._refuse_if_outside(offset)
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
        """As `read`, but raises `NotCached` where that would wait for the disk or take long."""
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
        """As `aborted_transactions`, but raises `NotCached` where that would wait for the disk."""
        open_files = self._open_files
        open_files.may_block = False
        try:
            return self._segments.aborted_transactions(start_offset, end_offset)
        finally:
            open_files.may_block = True

    def bytes_between(self, start_offset: int, end_offset: int) -> int | None:
        """The size of the batches between the offsets.

        None if it is unknown without the disk, or if they are not all in one segment.
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
        """The log from an offset on as it is now, for one thread to read; see `merge`."""
        self._refuse_if_closed()
        if offset is None:
            offset = self.log_start_offset
        self._refuse_if_outside(offset)
        return self._segments.read_view(
            offset, log_start_offset=self.log_start_offset, layout_version=self._layout_version
        )

    def merge(self, view: ReadView) -> bool:
        """Takes over what a thread has loaded and verified, once it is done.

        False if segments were cut, replaced or deleted meanwhile: what it has read may be wrong.
        """
        if self._closed or view.layout_version != self._layout_version:
            return False
        self._segments.merge(view)
        return True

    def aborted_transactions(
        self, start_offset: int, end_offset: int
    ) -> Sequence[AbortedTransaction]:
        """Those that have records between the offsets: readers of committed ones skip these."""
        try:
            return self._segments.aborted_transactions(start_offset, end_offset)
        except MalformedTransactionIndex as problem:
            self._rebuild_aborted(problem)
            return self._segments.aborted_transactions(start_offset, end_offset)

    def _note_aborted(self, transaction: AbortedTransaction) -> None:
        """Its marker is the last batch of the active segment."""
        try:
            self._segments.add_aborted(transaction)
        except MalformedTransactionIndex as problem:
            self._rebuild_aborted(problem)  # which finds this marker, too

    def _rebuild_aborted(self, problem: MalformedTransactionIndex) -> None:
        damaged_from = self._segments.first_damaged_aborted()
        logger.warning(
            "%s: the .txnindex files from offset %d on are rebuilt from the log: %s",
            self.directory,
            damaged_from,
            problem,
        )
        self._load_producers(aborted_from=damaged_from)

    def verify(self) -> Iterator[str]:
        """Reads everything; one sentence per segment about the first bad batch in it."""
        for segment in list(self._segments):
            damage = walk(segment, segment.size_bytes)
            if damage is not None:
                yield f"{segment.file.path}, position {damage.position}: {damage.reason}"

    @property
    def size_bytes(self) -> int:
        return self._segments.size_bytes

    @property
    def segment_count(self) -> int:
        return len(self._segments)

    # --- making it durable

    def flush(self, upto: int | None = None) -> None:
        """Makes everything before `upto` (by default: everything) survive a power cut.

        Raises FlushFailed if the disk does not take the bytes. Until a later flush has written
        them again, the log takes no appends: a successful fsync would prove nothing.
        """
        if self._closed:
            return
        if upto is None or self.flush_failure is not None:
            upto = self.log_end_offset
        if upto <= self.recovery_point and self._names_flushed:
            return
        try:
            if self.flush_failure is not None:
                self._segments.write_again(self.recovery_point)
            self._segments.flush(self.recovery_point, upto)
            self._flush_names()
        except FlushFailed as failure:
            self.flush_failure = str(failure)
            raise
        except FileNotFoundError:
            if not self._closed:
                raise  # else the log was deleted meanwhile
        self.recovery_point = max(self.recovery_point, upto)
        self.flush_failure = None

    def _flush_names(self) -> None:
        if self._names_flushed:
            return
        self._names_flushed = True  # set first: a segment that begins meanwhile resets it
        try:
            flush_small_files(self._filesystem, self.directory)
            self._filesystem.sync_directory(self.directory)
            self._filesystem.sync_directory(directory_of(self.directory))
        except BaseException:
            self._names_flushed = False
            raise

    @property
    def is_flush_due(self) -> bool:
        """Whether `flush.messages` records are not flushed."""
        return self.log_end_offset - self.recovery_point >= self.configuration.flush_messages

    def flush_due(self, now_ms: int) -> int | None:
        """The offset up to which somebody should flush now; None if nothing is due.

        Everything when `flush.ms` has passed, `flush.messages` is reached or the last flush
        failed, else what lies in sealed segments, so that recovery stays short.
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

    # --- letting go of records

    def advance_log_start(self, offset: int, now_ms: int) -> None:
        """Nobody may read before `offset` any longer; whole segments below it are deleted."""
        self._refuse_if_closed()
        self._refuse_if_outside(offset)
        self.log_start_offset = offset
        self._delete_oldest(self._segments.count_below(offset), now_ms)

    def enforce_retention(self, now_ms: int, high_watermark: int | None = None) -> int:
        """Deletes segments too old or too many, below the high watermark; returns how many.

        An active segment that is too old goes last, and another takes its place. All of this works
        on a full disk.
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
        """A new active segment, behind one that goes and needs no index any longer.

        Without room for the snapshot a crash forgets producers who have no record left here, as
        their age would do some time.
        """
        self._changed = True
        with suppress(DiskFull):
            self._segments.active.finish()
            self._save_producers()
        self._begin_empty_segment(self.log_end_offset, now_ms)

    def truncate_to(self, offset: int, now_ms: int) -> None:
        """Removes every batch that reaches to `offset` or beyond: whoever was leader had others.

        Checkpoint the directory afterwards: the recovery point written down is too far.
        """
        self._refuse_if_closed()
        if offset >= self.log_end_offset:
            return
        if offset <= self._segments.base_offset:
            self.truncate_fully_and_start_at(offset, now_ms)
            return
        self._layout_version += 1
        self._segments.truncate_to(offset, self._due_ms(now_ms))
        self._reload_after_truncation()

    def truncate_fully_and_start_at(self, offset: int, now_ms: int) -> None:
        """Forgets all records: the log begins anew, empty, at `offset`."""
        self._refuse_if_closed()
        self._layout_version += 1
        self._segments.begin_anew(offset, due_ms=self._due_ms(now_ms), now_ms=now_ms)
        self._names_flushed = False
        self.log_start_offset = offset
        self._reload_after_truncation()

    def _reload_after_truncation(self) -> None:
        self._changed = True
        self.deferred_snapshot = None
        self.log_end_offset = self._segments.active.next_offset
        self.log_start_offset = min(self.log_start_offset, self.log_end_offset)
        self.recovery_point = min(self.recovery_point, self.log_end_offset)
        self.producers = self._load_producers(aborted_from=self._segments.active.base_offset)
        self.leader_epochs.truncate_from_end(self.log_end_offset)
        self.leader_epochs.truncate_from_start(self.log_start_offset)
        self._save_leader_epochs()

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
            with suppress(DiskFull):  # deleting must work then; the next start truncates anew
                self._save_leader_epochs()

    def _due_ms(self, now_ms: int) -> int:
        return now_ms + self.configuration.file_delete_delay_ms

    # --- what compaction asks and does

    @property
    def filesystem(self) -> FileSystem:
        return self._filesystem

    def segments(self) -> list[Segment]:
        """All of them, the active one last."""
        return list(self._segments)

    def holds(self, segments: Sequence[Segment]) -> bool:
        """Whether these are still there, side by side and sealed."""
        return not self._closed and self._segments.holds(segments)

    def replace(self, segments: Sequence[Segment], left: CompactedBytes, now_ms: int) -> None:
        """What compaction has left of these segments takes their place."""
        assert self.holds(segments), "whoever replaces segments has just looked whether they are"
        self._layout_version += 1
        self._segments.replace(segments, left, self._due_ms(now_ms))
        self._names_flushed = False

    # --- what lies beside the segments

    def _save_leader_epochs(self) -> None:
        self._names_flushed = False
        save_leader_epochs(self._filesystem, self.directory, self.leader_epochs)

    def _save_producers(self, *, durable: bool = False) -> None:
        path = save_producers(self._filesystem, self.directory, self.producers, self.log_end_offset)
        if durable:
            sync_file(self._filesystem, path)

    def finish_snapshot(self, snapshot: DeferredSnapshot, *, is_written: bool) -> None:
        """Takes over a deferred snapshot, unless the log was cut meanwhile."""
        is_current = snapshot is self.deferred_snapshot
        if is_current:
            self.deferred_snapshot = None
        begins_segment = any(it.base_offset == snapshot.offset for it in self._segments)
        snapshot.finish(is_wanted=is_written and is_current and begins_segment)

    # --- the end

    @property
    def is_closed(self) -> bool:
        """Then its files may be gone, or those of that name be another log's."""
        return self._closed

    def _refuse_if_outside(self, offset: int) -> None:
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRange(
                f"offset {offset} is not in {self.log_start_offset}..{self.log_end_offset}"
            )

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise LogClosed(self.directory)

    @property
    def is_changed(self) -> bool:
        """Whether closing has something to write."""
        return self._changed and self._segments.active.size_bytes > 0

    def close(self, *, durable: bool = True) -> None:
        """Writes what makes the next start quick, and closes the files.

        Whoever closes thousands leaves out `durable` and syncs the disk once.
        """
        if self._closed:
            return
        if self.is_changed:
            self._segments.active.finish()
            self._save_producers(durable=durable)
            if durable:
                self._segments.active.flush_indexes()
                self._names_flushed = False
                self.flush()
            else:
                self.recovery_point = self.log_end_offset
        self.abandon()

    def abandon(self) -> None:
        """Closes the files and writes nothing, as before a deletion; views stay good."""
        self._closed = True
        self.deferred_snapshot = None
        self._segments.close()
