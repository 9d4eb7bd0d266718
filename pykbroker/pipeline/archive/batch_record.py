"""The record of an archived batch: which files are its, and how far it reaches."""

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
    """From the first to the last offset, both in it; there may be gaps between."""

    first: int
    last: int

    def with_range(self, other: OffsetRange) -> OffsetRange:
        return OffsetRange(min(self.first, other.first), max(self.last, other.last))


class StagedFile(NamedTuple):
    staged: str
    """Below the staging directory."""
    place: str
    """Below the archive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRecord:
    writer: str
    batch_id: int
    attempt: str
    files: tuple[StagedFile, ...]
    ranges: Mapping[TopicPartition, OffsetRange]
    """What this batch holds."""
    next_offsets: Mapping[TopicPartition, int]
    """How far the writer has come with it, in all partitions that it ever saw."""

    def encode(self) -> bytes:
        document = {
            "version": VERSION,
            "writer": self.writer,
            "batch_id": self.batch_id,
            "attempt": self.attempt,
            "files": [list(file) for file in self.files],
            "ranges": [[*where, *which] for where, which in sorted(self.ranges.items())],
            "next_offsets": [[*where, what] for where, what in sorted(self.next_offsets.items())],
        }
        return json.dumps(document, separators=(",", ":")).encode()


def decode(content: bytes) -> BatchRecord:
    document = json.loads(content)
    assert document["version"] == VERSION, f"a batch record of version {document['version']}"
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
    reaches: Iterable[Mapping[TopicPartition, int]],
) -> dict[TopicPartition, int]:
    """The farthest offset of each partition."""
    merged: dict[TopicPartition, int] = {}
    for reach in reaches:
        for where, offset in reach.items():
            merged[where] = max(offset, merged.get(where, 0))
    return merged
