"""The long part of a round of compaction: reads segments, writes what is left of them beside.

It shares nothing with the log's owner but files that are not written to any longer, so it may run
on another thread or in another process; see `Compaction` for the owner's part.
"""

from collections.abc import Iterator, Sequence

from pykbroker_protocol.records.batch import RecordBatch
from pykbroker_protocol.records.corrupt import CorruptBatch
from pykbroker_storage.batch_reader import read_batches
from pykbroker_storage.compaction.batch_filter import BatchFilter
from pykbroker_storage.compaction.cleaned_segment import CleanedSegment
from pykbroker_storage.compaction.job import CompactionStats, Job, OffsetMapBuilt, Rewritten, Source
from pykbroker_storage.compaction.offset_map import OffsetMap, size_for
from pykbroker_storage.compaction.record_spans import record_spans
from pykbroker_storage.compaction.throttler import Throttler
from pykbroker_storage.compaction.transactions import CleanedTransactions
from pykbroker_storage.filesystem import FileSystem
from pykbroker_storage.index import RELATIVE_OFFSET_MAX

# So many segments at most become one at a time: the owner renames their files in one go, which
# takes it some 70 us each.
SOURCES_MAX = 16


class SegmentRewriter:
    """First `note_keys`, then `write_next` until all is done."""

    def __init__(self, job: Job, filesystem: FileSystem, pace: Throttler) -> None:
        self._job = job
        self._filesystem = filesystem
        self._pace = pace
        self._keys = OffsetMap(size_for(job.end_offset - job.first_dirty_offset, job.map_bytes_max))
        self._filter = BatchFilter(
            keys=self._keys,
            transactions=CleanedTransactions(job.aborted),
            last_written={it.producer_id: it for it in job.last_written},
            end_offset=job.end_offset,
            now_ms=job.now_ms,
            delete_retention_ms=job.delete_retention_ms,
        )
        self._left: list[Source] = []  # to be cleaned
        self._bytes_read = self._bytes_written = 0

    def note_keys(self) -> OffsetMapBuilt:
        """Reads the dirty part and notes of each key the last offset, as far as memory goes."""
        self._fill(self._keys)
        end_offset = max(self._job.first_dirty_offset, self._keys.latest_offset + 1)
        self._left = [it for it in self._job.sources if it.base_offset < end_offset]
        return OffsetMapBuilt(end_offset, self._keys.count, self._keys.share_used)

    def write_next(self) -> Rewritten | None:
        """Writes the next segment with what is left of several; None when all is done."""
        if not self._left:
            return None
        base_offset = self._left[0].base_offset
        cleaned = CleanedSegment(
            self._filesystem,
            self._job.directory,
            base_offset,
            index_interval_bytes=self._job.index_interval_bytes,
        )
        try:
            source_count = self._clean_into(cleaned)
        except BaseException:
            cleaned.discard()
            raise
        self._bytes_written += cleaned.size_bytes
        del self._left[:source_count]
        return Rewritten(base_offset, source_count, cleaned.left)

    @property
    def tally(self) -> CompactionStats:
        return CompactionStats(
            self._bytes_read,
            self._bytes_written,
            self._filter.records_read,
            self._filter.records_kept,
            self._filter.keyless_count,
        )

    # --- how

    def _fill(self, keys: OffsetMap) -> None:
        first_offset = self._job.first_dirty_offset
        transactions = CleanedTransactions(
            [it for it in self._job.aborted if it.last_offset >= first_offset]
        )
        for source in self._job.sources:
            if source.next_offset <= first_offset:
                continue
            for batch in self._batches(source):
                if _follow(transactions, batch) and not _note(batch, keys, first_offset):
                    return
                keys.latest_offset = batch.last_offset
            keys.latest_offset = source.next_offset - 1

    def _clean_into(self, cleaned: CleanedSegment) -> int:
        """Takes as many of what is left as fit into one segment, at least one; how many."""
        rules = self._filter
        sources: list[Source] = []
        for source in self._left:
            if sources and not self._fits(source, cleaned, sources):
                break
            for batch in self._batches(source):
                left = rules.left_of(batch)
                if left is not None:
                    cleaned.append(left)
                    self._pace.moved(len(left))
            sources.append(source)
        cleaned.finish(rules.transactions.take_aborted_kept(), sources[-1].created_ms)
        return len(sources)

    def _fits(self, source: Source, cleaned: CleanedSegment, sources: Sequence[Source]) -> bool:
        job = self._job
        index_entries = source.size_bytes // max(job.index_interval_bytes, 1) + 1
        return (
            len(sources) < SOURCES_MAX
            and cleaned.size_bytes + source.size_bytes <= job.segment_bytes
            and source.next_offset - cleaned.base_offset <= RELATIVE_OFFSET_MAX
            and cleaned.has_index_room(index_entries, job.segment_index_bytes)
        )

    def _batches(self, source: Source) -> Iterator[RecordBatch]:
        """Every batch of a segment; raises `CorruptBatch` rather than copy damage."""
        next_offset = source.base_offset
        for batch in read_batches(self._filesystem, source.path, source.size_bytes):
            if batch.base_offset < next_offset or batch.next_offset > source.next_offset:
                raise CorruptBatch(
                    f"{source.path}: a batch of offset {batch.base_offset} follows "
                    f"offset {next_offset - 1}"
                )
            if not batch.is_crc_valid():
                raise CorruptBatch(
                    f"{source.path}: the checksum of the batch at offset {batch.base_offset} "
                    "is wrong"
                )
            next_offset = batch.next_offset
            self._bytes_read += batch.size_bytes
            self._pace.moved(batch.size_bytes)
            yield batch


def _follow(transactions: CleanedTransactions, batch: RecordBatch) -> bool:
    """Whether the batch holds records that count."""
    if batch.is_control:
        transactions.is_marker_obsolete(batch)
        return False
    return not transactions.is_aborted(batch)


def _note(batch: RecordBatch, keys: OffsetMap, first_offset: int) -> bool:
    """Whether all its keys found room."""
    base_offset = batch.base_offset
    for _, _, _, offset_delta, key, _ in record_spans(batch.payload(), batch.record_count):
        offset = base_offset + offset_delta
        if offset < first_offset:
            continue
        if key is not None and not keys.put(key, offset):
            return False
        keys.latest_offset = offset
    return True
