"""One compaction round over one log, seen from the log's owner.

    round = Compaction.begin(log, cleanable, ...)     `round.job` describes the work
    ... in another process, see `SegmentRewriter`: read segments, write `.cleaned` files
    round.swap_in(rewritten)                          a few renames, for each new segment
    directory.set_first_dirty_offset(...)            at the end of the round

The owner appends and deletes meanwhile. The round reads only sealed segments. If one of them is
gone when its replacement is ready, the round ends without a change.
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
    """Source segments were deleted or truncated, or the topic is no longer compacted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionLimits:
    """Memory and bandwidth limits of one round."""

    map_bytes_max: int
    bytes_per_second: float


class Compaction:
    """The part of a round that only the log's owner may run."""

    def __init__(self, log: Log, job: Job, segments: Sequence[Segment]) -> None:
        self.job = job
        self._log = log
        self._remaining = list(zip(segments, job.sources, strict=True))  # not replaced yet

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
                if it[1] < cleanable.end_offset  # other producers lose no batch in this round
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
        """Replaces source segments; raises `SourcesChanged`."""
        replaced = self._remaining[: rewritten.source_count]
        if not self._log.configuration.is_compacted or not self._are_unchanged(replaced):
            raise SourcesChanged
        self._log.replace(
            [segment for segment, _ in replaced], rewritten.compacted, self.job.now_ms
        )
        del self._remaining[: rewritten.source_count]

    def bytes_before(self, map_built: OffsetMapBuilt) -> int:
        """Returns the original size of the segments that the round rewrites."""
        return sum(
            it.size_bytes for it in self.job.sources if it.base_offset < map_built.end_offset
        )

    def sources_changed(self) -> bool:
        """Returns whether segments were removed, which explains a failed read."""
        return not self._are_unchanged(self._remaining)

    def abandon(self) -> None:
        """Removes `.cleaned` files of a stopped round."""
        if self._log.is_closed:
            return  # its directory is being deleted, and a new log may have the same name
        filesystem, directory = self._log.filesystem, self.job.directory
        with suppress(FileNotFoundError):  # the log may be deleted
            for name in filesystem.list_directory(directory):
                if name.endswith(CLEANED_SUFFIX):
                    filesystem.unlink(f"{directory}/{name}")

    def _are_unchanged(self, some: Sequence[tuple[Segment, Source]]) -> bool:
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
