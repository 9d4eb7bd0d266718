"""Checks an archive for missing and duplicate records."""

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
    """Result of a check, ordered by severity."""

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
    """Offset after the last archived record."""
    end: int | None
    """High watermark; None without a broker or if the partition does not exist."""
    is_behind: bool
    """True if committed records are not archived yet."""
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> Verdict:
        return max((it.verdict for it in self.findings), default=Verdict.PROVED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    partitions: tuple[PartitionReport, ...]
    unfinished: tuple[str, ...]
    """Missing files of a recorded batch; the next start of its writer moves them."""

    @property
    def verdict(self) -> Verdict:
        worst = max((it.verdict for it in self.partitions), default=Verdict.UNPROVED)
        return Verdict.BROKEN if self.unfinished else worst


def verify(archive: Path, topics: Topics | None, *, from_first_archived: bool = False) -> Report:
    """Checks all partitions of an archive.

    Without a broker a gap is unproved: it can be a transaction marker, an aborted record or a loss.
    `from_first_archived` accepts an archive that starts after the beginning of its topic.
    """
    recorded = recorded_of(archive)  # before the files: a batch may be finishing
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
    """State of the ledger; empty for a Delta table, which has its own log."""

    unfinished: tuple[str, ...]
    next_offsets: Mapping[TopicPartition, int]
    """Offset up to which files must exist, without unfinished batches."""


def recorded_of(archive: Path) -> Recorded:
    unfinished: list[str] = []
    all_next_offsets: list[dict[TopicPartition, int]] = []
    for record in latest_records(archive):
        missing = missing_files(archive, record)
        unfinished_ranges = record.ranges if missing else {}
        unfinished += missing
        all_next_offsets.append(
            {it: end for it, end in record.next_offsets.items() if it not in unfinished_ranges}
        )
    return Recorded(unfinished=tuple(unfinished), next_offsets=max_offsets(all_next_offsets))


def partitions_of_topics(
    known: Iterable[TopicPartition], topics: Topics | None
) -> Iterator[TopicPartition]:
    """Yields all partitions of archived topics, including those without archived records."""
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
    findings = [*(duplicates(covered) if covered else ()), *truncation(covered, recorded_end)]
    end, is_behind = None, False
    if topics is None or where.partition not in topics.partitions(where.topic):
        findings += unproved_gaps(covered, has_broker=topics is not None)
    else:
        bounds = topics.bounds(*where)
        end = bounds.last
        begins = covered.first if covered and from_first_archived else 0
        findings += compared_gaps(where, covered, topics, bounds, begins)
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


def duplicates(covered: Coverage) -> Iterator[Finding]:
    for span in covered.duplicates:
        yield Finding(verdict=Verdict.BROKEN, text=f"duplicates: {span_text(span)}")


def truncation(covered: Coverage | None, recorded_end: int) -> Iterator[Finding]:
    """Reports records at the end that were archived and whose files are gone."""
    next_offset = covered.next_offset if covered else 0
    if next_offset < recorded_end:
        lost = span_text(OffsetRange(next_offset, recorded_end - 1))
        text = f"lost: {lost}; the ledger records them, but no file contains them"
        yield Finding(verdict=Verdict.BROKEN, text=text)


def unproved_gaps(covered: Coverage | None, *, has_broker: bool) -> Iterator[Finding]:
    reason = (
        "the broker does not have this partition" if has_broker else "a broker is needed to check"
    )
    for gap in covered.gaps if covered else ():
        yield Finding(verdict=Verdict.UNPROVED, text=f"gap at {span_text(gap)}: {reason}")
    if has_broker:
        yield Finding(verdict=Verdict.UNPROVED, text=reason)


def compared_gaps(
    where: TopicPartition,
    covered: Coverage | None,
    topics: Topics,
    bounds: OffsetRange,
    begins: int,
) -> Iterator[Finding]:
    """Reads each gap from the topic; a gap without committed records is valid."""
    if covered is None:
        return
    if covered.next_offset > bounds.last:
        text = f"the topic ends at {bounds.last}, before the archive: was it recreated?"
        yield Finding(verdict=Verdict.BROKEN, text=text)
        return
    head = [OffsetRange(begins, covered.first - 1)] if begins < covered.first else []
    gaps = [*head, *covered.gaps]
    for gap in gaps:
        expired = OffsetRange(gap.first, min(gap.last, bounds.first - 1))
        if expired.first <= expired.last:
            text = f"gap at {span_text(expired)}: the topic now starts at {bounds.first}"
            yield Finding(verdict=Verdict.UNPROVED, text=text)
    readable = [OffsetRange(max(it.first, bounds.first), it.last) for it in gaps]
    compared = [gap for gap in readable if gap.first <= gap.last]
    for gap, missing in zip(compared, topics.first_records(*where, compared), strict=True):
        if missing is not None:
            text = f"missing: {span_text(gap)}; the topic has a record at {missing}"
            yield Finding(verdict=Verdict.BROKEN, text=text)


def span_text(span: OffsetRange) -> str:
    if span.first == span.last:
        return f"offset {span.first}"
    return f"offsets {span.first} to {span.last}"
