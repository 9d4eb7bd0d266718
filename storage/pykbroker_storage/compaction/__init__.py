"""Compaction: of every key a log keeps the last record, and forgets those before it."""

from pykbroker_storage.compaction.cleanable import Cleanable, find_cleanable
from pykbroker_storage.compaction.compaction import Compaction, Overtaken, Replacement, Tally
from pykbroker_storage.compaction.pace import Pace, Stopped, at_full_speed

__all__ = [
    "Cleanable",
    "Compaction",
    "Overtaken",
    "Pace",
    "Replacement",
    "Stopped",
    "Tally",
    "at_full_speed",
    "find_cleanable",
]
