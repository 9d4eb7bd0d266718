"""Reads source segments and writes compacted ones: the long part of a compaction round.

It shares only sealed files with the log's owner, so it may run on another thread or in another
process. `Compaction` is the owner's part.
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

# Maximum number of source segments per new segment: the owner renames all their files in one step,
# at about 70 us each.
SOURCES_MAX = 16


class SegmentRewriter:
    """Runs a job: `build_offset_map` once, then `write_next` until it returns None."""

    def __init__(self, job: Job, filesystem: FileSystem, throttler: Throttler) -> None:
        self._job = job
        self._filesystem = filesystem
        self._throttler = throttler
        self._keys = OffsetMap(size_for(job.end_offset - job.first_dirty_offset, job.map_bytes_max))
        self._filter = BatchFilter(
            keys=self._keys,
            transactions=CleanedTransactions(job.aborted),
            last_written={it.producer_id: it for it in job.last_written},
            end_offset=job.end_offset,
            now_ms=job.now_ms,
            delete_retention_ms=job.delete_retention_ms,
        )
        self._remaining: list[Source] = []  # not rewritten yet
        self._bytes_read = self._bytes_written = 0

    def build_offset_map(self) -> OffsetMapBuilt:
        """Reads the dirty part and maps each key to its last offset, until the map is full."""
        self._fill_map(self._keys)
        end_offset = max(self._job.first_dirty_offset, self._keys.latest_offset + 1)
        self._remaining = [it for it in self._job.sources if it.base_offset < end_offset]
        return OffsetMapBuilt(end_offset, self._keys.count, self._keys.share_used)

    def write_next(self) -> Rewritten | None:
        """Writes the next compacted segment; returns None when all sources are done."""
        if not self._remaining:
            return None
        base_offset = self._remaining[0].base_offset
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
        del self._remaining[:source_count]
        return Rewritten(base_offset, source_count, cleaned.result)

    @property
    def stats(self) -> CompactionStats:
        return CompactionStats(
            self._bytes_read,
            self._bytes_written,
            self._filter.records_read,
            self._filter.records_kept,
            self._filter.keyless_count,
        )

    # --- implementation

    def _fill_map(self, keys: OffsetMap) -> None:
        first_offset = self._job.first_dirty_offset
        transactions = CleanedTransactions(
            [it for it in self._job.aborted if it.last_offset >= first_offset]
        )
        for source in self._job.sources:
            if source.next_offset <= first_offset:
                continue
            for batch in self._batches(source):
                if _is_committed(transactions, batch) and not _add_keys(batch, keys, first_offset):
                    return
                keys.latest_offset = batch.last_offset
            keys.latest_offset = source.next_offset - 1

    def _clean_into(self, cleaned: CleanedSegment) -> int:
        """Rewrites as many sources as fit into one segment, at least one; returns their number."""
        rules = self._filter
        sources: list[Source] = []
        for source in self._remaining:
            if sources and not self._fits(source, cleaned, sources):
                break
            for batch in self._batches(source):
                kept = rules.filter(batch)
                if kept is not None:
                    cleaned.append(kept)
                    self._throttler.count(len(kept))
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
        """Yields every batch of a segment; raises `CorruptBatch` for corrupt data."""
        next_offset = source.base_offset
        for batch in read_batches(self._filesystem, source.path, source.size_bytes):
            if batch.base_offset < next_offset or batch.next_offset > source.next_offset:
                raise CorruptBatch(
                    f"{source.path}: offset {batch.base_offset} follows offset {next_offset - 1}"
                )
            if not batch.is_crc_valid():
                raise CorruptBatch(
                    f"{source.path}: batch at offset {batch.base_offset} has a wrong checksum"
                )
            next_offset = batch.next_offset
            self._bytes_read += batch.size_bytes
            self._throttler.count(batch.size_bytes)
            yield batch


def _is_committed(transactions: CleanedTransactions, batch: RecordBatch) -> bool:
    """Updates the transactions; returns whether the batch has committed records."""
    if batch.is_control:
        transactions.is_marker_obsolete(batch)
        return False
    return not transactions.is_aborted(batch)


def _add_keys(batch: RecordBatch, keys: OffsetMap, first_offset: int) -> bool:
    """Adds the keys of a batch; returns False if the map is full."""
    base_offset = batch.base_offset
    for _, _, _, offset_delta, key, _ in record_spans(batch.payload(), batch.record_count):
        offset = base_offset + offset_delta
        if offset < first_offset:
            continue
        if key is not None and not keys.put(key, offset):
            return False
        keys.latest_offset = offset
    return True
