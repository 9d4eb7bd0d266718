"""Compaction without a process of its own: the same work, done by whoever asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykbroker_storage.compaction import CompactionStats, Rewritten, SegmentRewriter
from pykbroker_storage.compaction.throttler import Throttler

if TYPE_CHECKING:
    from pykbroker_storage.compaction import Job, OffsetMapBuilt
    from pykbroker_storage.filesystem import FileSystem


class InlineCompaction:
    """Throttler is for machines that have something else to do."""

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
        """It never is in the middle of something."""

    def end(self) -> None:
        self._rewriting = None
