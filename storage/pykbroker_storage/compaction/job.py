"""Messages between the broker and the compaction process."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple, Self

from pykbroker_storage.segment import CompactedBytes
from pykbroker_storage.transaction_index import AbortedTransaction


class Source(NamedTuple):
    """The `.log` of a sealed segment at the start of the round."""

    path: str
    base_offset: int
    next_offset: int
    size_bytes: int
    created_ms: int


class LastWritten(NamedTuple):
    """Last offset of a producer's last batch (-1: none) and its epoch."""

    producer_id: int
    last_offset: int
    producer_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The segments of one log up to `end_offset`, and the rules to rewrite them."""

    directory: str
    sources: Sequence[Source]
    first_dirty_offset: int
    end_offset: int
    aborted: Sequence[AbortedTransaction]  # with records below `end_offset`
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
        """Encodes the job as one line of JSON."""
        return json.dumps({it.name: getattr(self, it.name) for it in fields(self)})

    @classmethod
    def decode(cls, line: str) -> Self:
        values = json.loads(line)
        values["sources"] = [Source(*it) for it in values["sources"]]
        values["aborted"] = [AbortedTransaction(*it) for it in values["aborted"]]
        values["last_written"] = [LastWritten(*it) for it in values["last_written"]]
        return cls(**values)


class OffsetMapBuilt(NamedTuple):
    """The offset map is built: the round cleans up to `end_offset`; how full the map is."""

    end_offset: int
    key_count: int
    share_of_table: float


class Rewritten(NamedTuple):
    """The next `source_count` segments can be replaced by a `.cleaned` one."""

    base_offset: int
    source_count: int
    compacted: CompactedBytes


class CompactionStats(NamedTuple):
    """Totals of a round."""

    bytes_read: int
    bytes_written: int
    records_read: int
    records_kept: int
    keyless_records: int
