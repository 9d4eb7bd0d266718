"""One round of compaction over one log, in steps: those that take long need not be its owner's.

    round = Compaction.begin(...)                owner
    round.note_keys()                            anywhere: notes every key's last offset
    while (cleaned := round.write_next()):       anywhere: writes one segment in place of several
        round.swap_in(cleaned)                   owner: quick, a few renames
    log.first_dirty_offset = round.end_offset    owner

The owner goes on appending and deleting meanwhile. What the round reads is sealed; should it be
gone when its successor is ready, the round is over and nothing has changed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from pykbroker_protocol.records.batch import RecordBatch
from pykbroker_protocol.records.corrupt import CorruptBatch
from pykbroker_storage.aborted import AbortedTransaction
from pykbroker_storage.batch_reader import read_batches
from pykbroker_storage.compaction.batch_filter import BatchFilter, LastWritten
from pykbroker_storage.compaction.cleanable import Cleanable
from pykbroker_storage.compaction.cleaned_segment import CleanedSegment
from pykbroker_storage.compaction.offset_map import OffsetMap, size_for
from pykbroker_storage.compaction.pace import Pace
from pykbroker_storage.compaction.record_spans import record_spans
from pykbroker_storage.compaction.transactions import AbortedFinder, TransactionsSeen
from pykbroker_storage.index import RELATIVE_OFFSET_MAX
from pykbroker_storage.log import Log
from pykbroker_storage.segment import Segment

# So many segments at most become one at a time: the owner renames their files in one go.
SOURCES_MAX = 64


class Overtaken(Exception):
    """Segments that the round worked on have been deleted or cut; try again another time."""


@dataclass(slots=True, kw_only=True)
class Tally:
    """What a round has done so far."""

    bytes_read: int = 0
    bytes_written: int = 0
    keyless_records: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """A segment that is ready to take the place of its sources."""

    sources: Sequence["Source"]
    cleaned: CleanedSegment


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A segment as it was when the round began."""

    segment: Segment  # the owner's: elsewhere nothing but its name is looked at
    path: str
    base_offset: int
    next_offset: int
    size_bytes: int
    created_ms: int

    @classmethod
    def of(cls, segment: Segment) -> Self:
        return cls(
            segment=segment,
            path=segment.file.path,
            base_offset=segment.base_offset,
            next_offset=segment.next_offset,
            size_bytes=segment.size_bytes,
            created_ms=segment.created_ms,
        )

    def is_unchanged(self) -> bool:
        return self.segment.is_sealed and self.segment.size_bytes == self.size_bytes


class Compaction:
    """Its parts are told apart by where they may run; see the module."""

    @classmethod
    def begin(
        cls, log: Log, cleanable: Cleanable, *, now_ms: int, map_bytes_max: int, pace: Pace
    ) -> Self:
        return cls(
            log,
            cleanable,
            sources=[Source.of(segment) for segment in log.segments()],
            last_written={
                producer_id: LastWritten(*last)
                for producer_id, *last in log.producers.last_written()
            },
            now_ms=now_ms,
            map_bytes_max=map_bytes_max,
            pace=pace,
        )

    def __init__(
        self,
        log: Log,
        cleanable: Cleanable,
        *,
        sources: Sequence[Source],
        last_written: dict[int, LastWritten],
        now_ms: int,
        map_bytes_max: int,
        pace: Pace,
    ) -> None:
        self.tally = Tally()
        self.end_offset = cleanable.first_dirty_offset
        self._log = log
        self._filesystem = log.filesystem
        self._configuration = log.configuration
        self._cleanable = cleanable
        self._sources = sources
        self._last_written = last_written
        self._now_ms = now_ms
        self._map_bytes_max = map_bytes_max
        self._pace = pace
        self._filter: BatchFilter | None = None
        self._left: list[Source] = []  # to be cleaned

    # --- anywhere

    def note_keys(self) -> None:
        """Reads the dirty part and notes of each key the last offset, as far as memory goes."""
        self._pace.begin()
        aborted, dirty_records = self._look_around()
        keys = OffsetMap(size_for(dirty_records, self._map_bytes_max))
        first_offset = self._cleanable.first_dirty_offset
        self._fill(keys, TransactionsSeen([it for it in aborted if it.last_offset >= first_offset]))
        self.end_offset = max(self.end_offset, keys.latest_offset + 1)
        self._left = [it for it in self._to_clean() if it.base_offset < self.end_offset]
        self._filter = BatchFilter(
            keys=keys,
            transactions=TransactionsSeen(aborted),
            last_written=self._last_written,
            end_offset=self._cleanable.end_offset,
            now_ms=self._now_ms,
            delete_retention_ms=self._configuration.delete_retention_ms,
            pace=self._pace,
        )

    def write_next(self) -> Replacement | None:
        """The next segment with what is left of several; None when all is done."""
        assert self._filter is not None, "first the keys, then the segments"
        if not self._left:
            return None
        self._pace.begin()
        cleaned = CleanedSegment(
            self._filesystem,
            self._log.directory,
            self._left[0].base_offset,
            index_interval_bytes=self._configuration.index_interval_bytes,
        )
        try:
            sources = self._clean_into(cleaned, self._filter)
        except BaseException:
            cleaned.discard()
            raise
        self.tally.bytes_written += cleaned.size_bytes
        self.tally.keyless_records = self._filter.keyless_count
        return Replacement(sources=sources, cleaned=cleaned)

    # --- the owner's

    def swap_in(self, replacement: Replacement) -> None:
        """Readers see the new segment from now on; raises `Overtaken`."""
        sources, cleaned = replacement.sources, replacement.cleaned
        segments = [source.segment for source in sources]
        if not self._log.holds(segments) or not all(it.is_unchanged() for it in sources):
            cleaned.discard()
            raise Overtaken
        self._log.replace(segments, cleaned.left, self._now_ms)
        del self._left[: len(sources)]

    def is_overtaken(self) -> bool:
        """Whether a failure to read is no wonder: the segments are not there any longer."""
        sources = self._left or self._to_clean()
        return not self._log.holds([it.segment for it in sources]) or not all(
            it.is_unchanged() for it in sources
        )

    # --- how

    def _to_clean(self) -> list[Source]:
        end_offset = self._cleanable.end_offset  # an empty active segment begins and ends there
        return [
            it
            for it in self._sources
            if it.base_offset < end_offset and it.next_offset <= end_offset
        ]

    def _look_around(self) -> tuple[list[AbortedTransaction], int]:
        """The aborted transactions, and how many records the dirty part has at most.

        Of a transaction that was decided, the marker may lie beyond what is cleaned.
        """
        finder = AbortedFinder()
        dirty_records = 0
        end_offset = self._cleanable.end_offset
        for source in self._sources:
            if source.base_offset >= end_offset and not finder.has_open_before(end_offset):
                break
            for batch in self._batches(source):
                finder.see(batch)
                if self._cleanable.first_dirty_offset <= batch.last_offset < end_offset:
                    dirty_records += batch.record_count
        return finder.aborted, dirty_records

    def _fill(self, keys: OffsetMap, transactions: TransactionsSeen) -> None:
        first_offset = self._cleanable.first_dirty_offset
        for source in self._to_clean():
            if source.next_offset <= first_offset:
                continue
            for batch in self._batches(source):
                if _follow(transactions, batch) and not self._note(batch, keys, first_offset):
                    return
                keys.latest_offset = batch.last_offset
            keys.latest_offset = source.next_offset - 1

    def _note(self, batch: RecordBatch, keys: OffsetMap, first_offset: int) -> bool:
        """Whether all its keys found room."""
        spans = record_spans(batch.payload(), batch.record_count, self._pace.breathe)
        for _, _, _, offset_delta, key, _ in spans:
            offset = batch.base_offset + offset_delta
            if offset < first_offset:
                continue
            if key is not None and not keys.put(key, offset):
                return False
            keys.latest_offset = offset
        return True

    def _clean_into(self, cleaned: CleanedSegment, rules: BatchFilter) -> list[Source]:
        """Takes as many of what is left as fit into one segment; at least one."""
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
        return sources

    def _fits(self, source: Source, cleaned: CleanedSegment, sources: Sequence[Source]) -> bool:
        configuration = self._configuration
        index_entries = source.size_bytes // max(configuration.index_interval_bytes, 1) + 1
        return (
            len(sources) < SOURCES_MAX
            and cleaned.size_bytes + source.size_bytes <= configuration.segment_bytes
            and source.next_offset - cleaned.base_offset <= RELATIVE_OFFSET_MAX
            and cleaned.has_index_room(index_entries, configuration.segment_index_bytes)
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
            self.tally.bytes_read += batch.size_bytes
            self._pace.moved(batch.size_bytes)
            yield batch


def _follow(transactions: TransactionsSeen, batch: RecordBatch) -> bool:
    """Whether the batch holds records that count."""
    if batch.is_control:
        transactions.is_marker_idle(batch)
        return False
    return not transactions.is_aborted(batch)
