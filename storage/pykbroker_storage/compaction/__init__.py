"""Compaction: of every key a log keeps the last record, and forgets those before it."""

from pykbroker_storage.compaction.cleanable import Cleanable, find_cleanable
from pykbroker_storage.compaction.compaction import Bounds, Compaction, Overtaken
from pykbroker_storage.compaction.job import Job, Noted, Rewritten, Tally
from pykbroker_storage.compaction.process import CompactionProcess, ProcessEnded
from pykbroker_storage.compaction.rewriting import Rewriting

__all__ = [
    "Bounds",
    "Cleanable",
    "Compaction",
    "CompactionProcess",
    "Job",
    "Noted",
    "Overtaken",
    "ProcessEnded",
    "Rewriting",
    "Rewritten",
    "Tally",
    "find_cleanable",
]
