"""Progress of a query: Spark's report of a batch as a value and as one line of text."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Self, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Offsets: TypeAlias = "dict[str, dict[str, int]]"
"""By topic and partition; the partition is a string as in JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Metrics of one batch of a query."""

    query: str
    at: str
    batch_id: int
    rows: int
    rows_per_s: float
    lag: dict[str, int] = field(default_factory=dict)
    """Records by topic that are not in a batch yet."""
    state_rows: int = 0
    state_bytes: int = 0
    dropped_late: int = 0
    watermark: str | None = None
    duration_ms: int = 0

    @classmethod
    def of_report(cls, query: str, report: Mapping[str, Any]) -> Self:
        """Converts the JSON of a `StreamingQueryProgress`."""
        state = report.get("stateOperators") or ()
        watermark = (report.get("eventTime") or {}).get("watermark")
        return cls(
            query=query,
            at=report["timestamp"],
            batch_id=report["batchId"],
            rows=report.get("numInputRows") or 0,
            rows_per_s=round(report.get("processedRowsPerSecond") or 0.0, 1),
            lag=lag_of(report.get("sources") or ()),
            state_rows=sum(it.get("numRowsTotal") or 0 for it in state),
            state_bytes=sum(it.get("memoryUsedBytes") or 0 for it in state),
            dropped_late=sum(it.get("numRowsDroppedByWatermark") or 0 for it in state),
            watermark=None if is_unset(watermark) else watermark,
            duration_ms=(report.get("durationMs") or {}).get("triggerExecution") or 0,
        )

    @classmethod
    def of_text(cls, text: str) -> Self:
        return cls(**json.loads(text))

    def to_text(self) -> str:
        return json.dumps(asdict(self), indent=1) + "\n"


def is_unset(watermark: str | None) -> bool:
    """True for the epoch, the initial watermark of Spark."""
    return watermark is None or watermark.startswith("1970-01-01T00:00:00")


def lag_of(sources: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    lag: dict[str, int] = {}
    for source in sources:
        latest, end = offsets_in(source.get("latestOffset")), offsets_in(source.get("endOffset"))
        for topic, behind in records_between(end, latest).items():
            lag[topic] = max(lag.get(topic, 0), behind)
    return lag


def offsets_in(text: object) -> Offsets:
    """Returns the offsets; Spark writes them as JSON or as a string with JSON."""
    if isinstance(text, str):
        try:
            text = json.loads(text)
        except ValueError:
            return {}
    return text if isinstance(text, dict) else {}


def records_between(from_offsets: Offsets, to_offsets: Offsets) -> dict[str, int]:
    """Returns the number of offsets between, by topic; an unread partition counts from offset 0."""
    return {
        topic: sum(
            max(0, end - from_offsets.get(topic, {}).get(partition, 0))
            for partition, end in ends.items()
        )
        for topic, ends in to_offsets.items()
    }


def progress_line(progress: Progress) -> str:
    """Returns `14:03:22  sink.alerts  batch 17  5,800 rows  2,340 rows/s  lag trucks 0`."""
    words = [
        progress.at[11:19],
        progress.query,
        f"batch {progress.batch_id}",
        f"{progress.rows:,} rows",
        f"{progress.rows_per_s:,.0f} rows/s",
        *(f"lag {topic} {behind:,}" for topic, behind in progress.lag.items()),
    ]
    if progress.state_bytes:
        words.append(f"state {progress.state_rows:,} rows {bytes_text(progress.state_bytes)}")
    if progress.watermark is not None:
        words.append(f"watermark {progress.watermark[:19].replace('T', ' ')}")
    if progress.dropped_late:
        words.append(f"{progress.dropped_late:,} late rows dropped")
    return "  ".join(words)


def bytes_text(count: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"
