"""One round of compaction over one log, as its owner sees it.

    round = Compaction.begin(log, cleanable, ...)     what is to be done is `round.job`
    ... elsewhere, see `SegmentRewriter`: read, write beside
    round.swap_in(rewritten)                          quick, a few renames; for each new segment
    directory.note_first_dirty_offset(...)            when all is done

The owner goes on appending and deleting meanwhile. What the round reads is sealed; should it be
gone when its successor is ready, the round is over and nothing has changed.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Self

from pykbroker_protocol.late_dataclass import dataclass
from pykbroker_storage.compaction.cleanable import Cleanable
from pykbroker_storage.compaction.job import Job, LastWritten, OffsetMapBuilt, Rewritten, Source
from pykbroker_storage.log import Log
from pykbroker_storage.segment import Segment
from pykbroker_storage.segment_swap import CLEANED_SUFFIX


class SourcesChanged(Exception):
    """Segments that the round worked on have been deleted or cut, or are to stay as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionLimits:
    """How much of memory and disk one round may take."""

    map_bytes_max: int
    bytes_per_second: float


class Compaction:
    """The part of the round that only the log's owner may do."""

    def __init__(self, log: Log, job: Job, segments: Sequence[Segment]) -> None:
        self.job = job
        self._log = log
        self._left = list(zip(segments, job.sources, strict=True))  # not replaced yet

    @classmethod
    def begin(
        cls, log: Log, cleanable: Cleanable, *, now_ms: int, bounds: CompactionLimits
    ) -> Self:
        configuration = log.configuration
        segments = _to_clean(log, cleanable)
        job = Job(
            directory=log.directory,
            sources=[_source(segment) for segment in segments],
            first_dirty_offset=cleanable.first_dirty_offset,
            end_offset=cleanable.end_offset,
            aborted=log.aborted_transactions(segments[0].base_offset, cleanable.end_offset)
            if segments
            else [],
            last_written=[
                LastWritten(*it)
                for it in log.producers.last_written()
                if it[1] < cleanable.end_offset  # others have nothing to lose here
            ],
            now_ms=now_ms,
            delete_retention_ms=configuration.delete_retention_ms,
            segment_bytes=configuration.segment_bytes,
            segment_index_bytes=configuration.segment_index_bytes,
            index_interval_bytes=configuration.index_interval_bytes,
            map_bytes_max=bounds.map_bytes_max,
            bytes_per_second=bounds.bytes_per_second,
            is_durable=log.filesystem.is_durable,
        )
        return cls(log, job, segments)

    def swap_in(self, rewritten: Rewritten) -> None:
        """Readers see the new segment from now on; raises `SourcesChanged`."""
        replaced = self._left[: rewritten.source_count]
        if not self._log.configuration.is_compacted or not self._are_there(replaced):
            raise SourcesChanged
        self._log.replace([segment for segment, _ in replaced], rewritten.left, self.job.now_ms)
        del self._left[: rewritten.source_count]

    def bytes_before(self, noted: OffsetMapBuilt) -> int:
        """The size of what the round rewrites, as it was."""
        return sum(it.size_bytes for it in self.job.sources if it.base_offset < noted.end_offset)

    def sources_changed(self) -> bool:
        """Whether a failure to read is no wonder: the segments are not there any longer."""
        return not self._are_there(self._left)

    def abandon(self) -> None:
        """Removes what nobody will swap in, once nobody writes to it any longer."""
        if self._log.is_closed:
            return  # its directory is on its way out, and another may have the name
        filesystem, directory = self._log.filesystem, self.job.directory
        with suppress(FileNotFoundError):  # the log may be gone
            for name in filesystem.list_directory(directory):
                if name.endswith(CLEANED_SUFFIX):
                    filesystem.unlink(f"{directory}/{name}")

    def _are_there(self, some: Sequence[tuple[Segment, Source]]) -> bool:
        return self._log.holds([segment for segment, _ in some]) and all(
            segment.is_sealed and segment.size_bytes == source.size_bytes
            for segment, source in some
        )


def _to_clean(log: Log, cleanable: Cleanable) -> list[Segment]:
    end_offset = cleanable.end_offset  # an empty active segment begins and ends there
    return [
        it for it in log.segments() if it.base_offset < end_offset and it.next_offset <= end_offset
    ]


def _source(segment: Segment) -> Source:
    return Source(
        segment.file.path,
        segment.base_offset,
        segment.next_offset,
        segment.size_bytes,
        segment.created_ms,
    )
