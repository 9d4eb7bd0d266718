"""Finds the anomalies in a history.

Requirements: no records are deleted (by retention, compaction or DeleteRecords), all writers of
the topics are in the history, and every send has a unique value.
"""

from collections.abc import Collection, Iterator

from pykbroker.testing.history.evidence import Evidence
from pykbroker.testing.history.findings import Anomaly, Finding
from pykbroker.testing.history.missing_records import lost_records
from pykbroker.testing.history.order import (
    polls_out_of_order,
    records_skipped,
    sends_out_of_order,
)
from pykbroker.testing.history.read_spans import read_spans_of
from pykbroker.testing.history.recording import History
from pykbroker.testing.history.visibility import (
    duplicates,
    inconsistent_offsets,
    records_never_sent,
    records_read_wrongly,
)


def check(history: History, *, allowed: Collection[Anomaly] = ()) -> list[Finding]:
    """Returns all anomalies except the allowed ones."""
    return [it for it in _findings(history) if it.anomaly not in allowed]


def expect_sound(history: History, *, allowed: Collection[Anomaly] = ()) -> None:
    """Raises an AssertionError that lists the anomalies, except the allowed ones."""
    findings = check(history, allowed=allowed)
    if findings:
        shown = "\n".join(map(str, findings[:_SHOWN_MAX]))
        raise AssertionError(f"anomalies: {len(findings)}\n{shown}")


_SHOWN_MAX = 20


def _findings(history: History) -> Iterator[Finding]:
    evidence = Evidence(history.events)
    spans = read_spans_of(history.events)
    yield from inconsistent_offsets(evidence)
    yield from records_never_sent(evidence)
    yield from records_read_wrongly(evidence)
    yield from duplicates(evidence)
    yield from lost_records(evidence, spans)
    yield from polls_out_of_order(spans)
    yield from records_skipped(evidence, spans)
    yield from sends_out_of_order(evidence)
