"""What one round of compaction is to do, in values that another process can be told."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple, Self

from pykbroker_storage.segment import CompactedBytes
from pykbroker_storage.transaction_index import AbortedTransaction


class Source(NamedTuple):
    """A sealed segment's `.log` as it was when the round began."""

    path: str
    base_offset: int
    next_offset: int
    size_bytes: int
    created_ms: int


class LastWritten(NamedTuple):
    """The last a producer wrote: the end of its last batch of records (-1: none), its epoch."""

    producer_id: int
    last_offset: int
    producer_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One log, its segments up to `end_offset`, and by which rules they are rewritten."""

    directory: str
    sources: Sequence[Source]
    first_dirty_offset: int
    end_offset: int
    aborted: Sequence[AbortedTransaction]  # with records before `end_offset`
    last_written: Sequence[LastWritten]
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    map_bytes_max: int
    bytes_per_second: float
    is_durable: bool

    def encode(self) -> str:
        """One line."""
        return json.dumps({it.name: getattr(self, it.name) for it in fields(self)})

    @classmethod
    def decode(cls, line: str) -> Self:
        values = json.loads(line)
        values["sources"] = [Source(*it) for it in values["sources"]]
        values["aborted"] = [AbortedTransaction(*it) for it in values["aborted"]]
        values["last_written"] = [LastWritten(*it) for it in values["last_written"]]
        return cls(**values)


class OffsetMapBuilt(NamedTuple):
    """The round comes as far as this offset; how much of its table the keys take."""

    end_offset: int
    key_count: int
    share_of_table: float


class Rewritten(NamedTuple):
    """The next so many sources may give way to what is left of them."""

    base_offset: int
    source_count: int
    left: CompactedBytes


class CompactionStats(NamedTuple):
    """What a round has done."""

    bytes_read: int
    bytes_written: int
    records_read: int
    records_kept: int
    keyless_records: int
