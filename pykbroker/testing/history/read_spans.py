"""Spans of records that a reader read from a partition without a rebalance or seek."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from pykbroker.testing.history.events import Event, Moved, MoveReason, Polled, Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Two consecutive records of a span."""

    after: int
    """Offset of the first record, or the start of the span minus one."""
    before: int
    """Offset of the second record."""
    poll: Polled
    is_internal: bool
    """True if one poll returned both records."""


@dataclass(slots=True, kw_only=True, eq=False)
class ReadSpan:
    """The reads of one client in one partition between two position changes."""

    client: str
    topic: str
    partition: int
    start: int | None
    """The start position, if known."""
    read: list[tuple[int, Polled]] = field(default_factory=list)

    def not_read_here(self, offsets: Iterable[int]) -> list[int]:
        """Returns the offsets that are not in this span."""
        own = {offset for offset, _ in self.read}
        return [it for it in offsets if it not in own]

    def steps(self) -> Iterable[Step]:
        """Yields consecutive pairs, including decreasing offsets."""
        before: tuple[int, Polled | None] | None = None
        if self.start is not None:
            before = (self.start - 1, None)
        for offset, poll in self.read:
            if before is not None:
                yield Step(after=before[0], before=offset, poll=poll, is_internal=before[1] is poll)
            before = (offset, poll)


def read_spans_of(events: Iterable[Event]) -> list[ReadSpan]:
    found: list[ReadSpan] = []
    running: dict[str, dict[tuple[str, int], ReadSpan]] = defaultdict(dict)
    for event in events:
        match event:
            case Moved():
                for topic, partition, offset in event.positions:
                    running[event.client].pop((topic, partition), None)
                    if event.move is not MoveReason.REVOKED and offset is not None:
                        span = ReadSpan(
                            client=event.client, topic=topic, partition=partition, start=offset
                        )
                        running[event.client][topic, partition] = span
                        found.append(span)
            case Polled():
                of_client = running[event.client]
                for record in event.records:
                    span = _span_of(record, event, of_client, found)
                    span.read.append((record.offset, event))
            case _:
                pass
    return found


def _span_of(
    record: Record,
    poll: Polled,
    running: dict[tuple[str, int], ReadSpan],
    found: list[ReadSpan],
) -> ReadSpan:
    partition = (record.topic, record.partition)
    if partition not in running:
        running[partition] = ReadSpan(
            client=poll.client, topic=record.topic, partition=record.partition, start=None
        )
        found.append(running[partition])
    return running[partition]
