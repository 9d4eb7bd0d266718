"""Whether an archive is whole: no gap, no record twice, and how far it reaches."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from pykbroker.pipeline.archive.archived_files import archived_files
from pykbroker.pipeline.archive.batch_record import OffsetRange, TopicPartition, max_offsets
from pykbroker.pipeline.archive.coverage import Coverage, coverage_of
from pykbroker.pipeline.archive.ledger import latest_records, missing_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from pykbroker.pipeline.verify_broker import Topics


class Verdict(IntEnum):
    """The worst comes last."""

    PROVED = 0
    UNPROVED = 1
    BROKEN = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    verdict: Verdict
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReport:
    topic: str
    partition: int
    records: int
    first: int | None
    next_offset: int | None
    """One behind the last archived record."""
    end: int | None
    """The high watermark; None where no broker was asked, or has no such partition."""
    is_behind: bool
    """Whether there are committed records that the archive does not have yet."""
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> Verdict:
        return max((it.verdict for it in self.findings), default=Verdict.PROVED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    partitions: tuple[PartitionReport, ...]
    unfinished: tuple[str, ...]
    """Files of a recorded batch that are not in place; the next start of its writer moves them."""

    @property
    def verdict(self) -> Verdict:
        worst = max((it.verdict for it in self.partitions), default=Verdict.UNPROVED)
        return Verdict.BROKEN if self.unfinished else worst


def verify(archive: Path, topics: Topics | None, *, from_first_archived: bool = False) -> Report:
    """Without a broker, a gap may be anything: a marker, a record taken back, or a loss.

    An archive that began in the middle of its topic, on purpose, is whole `from_first_archived`.
    """
    recorded = recorded_of(archive)  # before the files: a batch may be coming into place
    coverage = coverage_of(archived_files(archive))
    known = {*coverage, *recorded.next_offsets}
    reports = (
        partition_report(
            where,
            coverage.get(where),
            topics,
            recorded_end=recorded.next_offsets.get(where, 0),
            from_first_archived=from_first_archived,
        )
        for where in sorted({*known, *partitions_of_topics(known, topics)})
    )
    return Report(unfinished=recorded.unfinished, partitions=tuple(reports))


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What the ledger says; a Delta table has a log of its own, and none of ours."""

    unfinished: tuple[str, ...]
    next_offsets: Mapping[TopicPartition, int]
    """How far the files must reach, but for batches that are unfinished."""


def recorded_of(archive: Path) -> Recorded:
    unfinished: list[str] = []
    reaches: list[dict[TopicPartition, int]] = []
    for record in latest_records(archive):
        missing = missing_files(archive, record)
        coming = record.ranges if missing else {}
        unfinished += missing
        reaches.append({it: end for it, end in record.next_offsets.items() if it not in coming})
    return Recorded(unfinished=tuple(unfinished), next_offsets=max_offsets(reaches))


def partitions_of_topics(
    known: Iterable[TopicPartition], topics: Topics | None
) -> Iterator[TopicPartition]:
    """All partitions of archived topics, of which some may have no archived record."""
    for topic in {where.topic for where in known} if topics is not None else ():
        assert topics is not None
        for partition in topics.partitions(topic):
            yield TopicPartition(topic, partition)


def partition_report(
    where: TopicPartition,
    covered: Coverage | None,
    topics: Topics | None,
    *,
    recorded_end: int,
    from_first_archived: bool,
) -> PartitionReport:
    findings = [*(doubles(covered) if covered else ()), *lost_end(covered, recorded_end)]
    end, is_behind = None, False
    if topics is None or where.partition not in topics.partitions(where.topic):
        findings += unknown_gaps(covered, has_asked=topics is not None)
    else:
        bounds = topics.bounds(*where)
        end = bounds.last
        begins = covered.first if covered and from_first_archived else 0
        findings += asked_gaps(where, covered, topics, bounds, begins)
        reach = max(covered.next_offset if covered else 0, bounds.first)
        rest = [OffsetRange(reach, end - 1)] if reach < end else []
        is_behind = topics.first_records(*where, rest) not in ([], [None])
    return PartitionReport(
        topic=where.topic,
        partition=where.partition,
        records=covered.records if covered else 0,
        first=covered.first if covered else None,
        next_offset=covered.next_offset if covered else None,
        end=end,
        is_behind=is_behind,
        findings=tuple(findings),
    )


def doubles(covered: Coverage) -> Iterator[Finding]:
    for span in covered.doubled:
        yield Finding(verdict=Verdict.BROKEN, text=f"archived twice: {words(span)}")


def lost_end(covered: Coverage | None, recorded_end: int) -> Iterator[Finding]:
    """What an archive had once, it has for ever."""
    next_offset = covered.next_offset if covered else 0
    if next_offset < recorded_end:
        lost = words(OffsetRange(next_offset, recorded_end - 1))
        text = f"lost: {lost} had been archived, and no file has them"
        yield Finding(verdict=Verdict.BROKEN, text=text)


def unknown_gaps(covered: Coverage | None, *, has_asked: bool) -> Iterator[Finding]:
    why = "the broker has no such partition" if has_asked else "only a broker can say why"
    for gap in covered.gaps if covered else ():
        yield Finding(verdict=Verdict.UNPROVED, text=f"no record at {words(gap)}: {why}")
    if has_asked:
        yield Finding(verdict=Verdict.UNPROVED, text=why)


def asked_gaps(
    where: TopicPartition,
    covered: Coverage | None,
    topics: Topics,
    bounds: OffsetRange,
    begins: int,
) -> Iterator[Finding]:
    """Each gap is read: what is a gap to a consumer as well is none."""
    if covered is None:
        return
    if covered.next_offset > bounds.last:
        text = f"the topic ends at {bounds.last}, before the archive: was it made anew?"
        yield Finding(verdict=Verdict.BROKEN, text=text)
        return
    head = [OffsetRange(begins, covered.first - 1)] if begins < covered.first else []
    gaps = [*head, *covered.gaps]
    for gap in gaps:
        expired = OffsetRange(gap.first, min(gap.last, bounds.first - 1))
        if expired.first <= expired.last:
            text = f"no record at {words(expired)}, and the topic begins at {bounds.first} now"
            yield Finding(verdict=Verdict.UNPROVED, text=text)
    there = [OffsetRange(max(it.first, bounds.first), it.last) for it in gaps]
    asked = [gap for gap in there if gap.first <= gap.last]
    for gap, missing in zip(asked, topics.first_records(*where, asked), strict=True):
        if missing is not None:
            text = f"missing: {words(gap)}; the topic has a record at {missing}"
            yield Finding(verdict=Verdict.BROKEN, text=text)


def words(span: OffsetRange) -> str:
    if span.first == span.last:
        return f"offset {span.first}"
    return f"offsets {span.first} to {span.last}"
