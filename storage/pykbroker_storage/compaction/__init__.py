"""Compaction: keeps the last record of every key of a log and removes earlier ones."""

from pykbroker_storage.compaction.cleanable import Cleanable, find_cleanable
from pykbroker_storage.compaction.compaction import Compaction, CompactionLimits, SourcesChanged
from pykbroker_storage.compaction.job import CompactionStats, Job, OffsetMapBuilt, Rewritten
from pykbroker_storage.compaction.process import CompactionProcess, ProcessEnded
from pykbroker_storage.compaction.segment_rewriter import SegmentRewriter

__all__ = [
    "Cleanable",
    "Compaction",
    "CompactionLimits",
    "CompactionProcess",
    "CompactionStats",
    "Job",
    "OffsetMapBuilt",
    "ProcessEnded",
    "Rewritten",
    "SegmentRewriter",
    "SourcesChanged",
    "find_cleanable",
]
