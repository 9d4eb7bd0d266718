"""The ledger entry of an archived batch: its files, offset ranges and next offsets."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

VERSION = 1


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class OffsetRange(NamedTuple):
    """Inclusive range of offsets; may contain gaps."""

    first: int
    last: int

    def with_range(self, other: OffsetRange) -> OffsetRange:
        return OffsetRange(min(self.first, other.first), max(self.last, other.last))


class StagedFile(NamedTuple):
    staged: str
    """Path relative to the staging directory."""
    archived: str
    """Path relative to the archive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRecord:
    writer: str
    batch_id: int
    attempt: str
    files: tuple[StagedFile, ...]
    ranges: Mapping[TopicPartition, OffsetRange]
    """Offset ranges in this batch."""
    next_offsets: Mapping[TopicPartition, int]
    """Next offsets of the writer after this batch, for all partitions archived so far."""

    def encode(self) -> bytes:
        document = {
            "version": VERSION,
            "writer": self.writer,
            "batch_id": self.batch_id,
            "attempt": self.attempt,
            "files": [list(file) for file in self.files],
            "ranges": [[*where, *span] for where, span in sorted(self.ranges.items())],
            "next_offsets": [
                [*where, offset] for where, offset in sorted(self.next_offsets.items())
            ],
        }
        return json.dumps(document, separators=(",", ":")).encode()


def decode(content: bytes) -> BatchRecord:
    document = json.loads(content)
    assert document["version"] == VERSION, f"batch record has version {document['version']}"
    return BatchRecord(
        writer=document["writer"],
        batch_id=document["batch_id"],
        attempt=document["attempt"],
        files=tuple(StagedFile(*names) for names in document["files"]),
        ranges={
            TopicPartition(topic, partition): OffsetRange(first, last)
            for topic, partition, first, last in document["ranges"]
        },
        next_offsets={
            TopicPartition(topic, partition): offset
            for topic, partition, offset in document["next_offsets"]
        },
    )


def max_offsets(
    offsets_by_source: Iterable[Mapping[TopicPartition, int]],
) -> dict[TopicPartition, int]:
    """Returns the maximum offset of each partition."""
    merged: dict[TopicPartition, int] = {}
    for offsets in offsets_by_source:
        for where, offset in offsets.items():
            merged[where] = max(offset, merged.get(where, 0))
    return merged
