"""Compaction in the calling process instead of a worker process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_storage.compaction import CompactionStats, Rewritten, SegmentRewriter
from pykbroker_storage.compaction.throttler import Throttler

if TYPE_CHECKING:
    from pykbroker_storage.compaction import Job, OffsetMapBuilt
    from pykbroker_storage.filesystem import FileSystem


class InlineCompaction:
    """A compaction worker that runs synchronously, without limits on disk bandwidth."""

    def __init__(self, filesystem: FileSystem) -> None:
        self._filesystem = filesystem
        self._rewriting: SegmentRewriter | None = None

    def begin(self, job: Job) -> OffsetMapBuilt:
        self._rewriting = SegmentRewriter(job, self._filesystem, Throttler())
        return self._rewriting.build_offset_map()

    def next(self) -> Rewritten | CompactionStats:
        assert self._rewriting is not None, "no job has begun"
        return self._rewriting.write_next() or self._rewriting.stats

    def stop(self) -> None:
        """Does nothing: no work is in progress between calls."""

    def end(self) -> None:
        self._rewriting = None
