"""Finds what cannot be true in a history.

It is for topics whose records stay (none are deleted by retention, compaction or hand), whose
writers are all in the history, and where no value is sent twice on purpose.
"""

from collections.abc import Collection, Iterator

from pykbroker.testing.history.evidence import Evidence
from pykbroker.testing.history.findings import Anomaly, Finding
from pykbroker.testing.history.missing_records import lost_records
from pykbroker.testing.history.order import (
    polls_out_of_order,
    records_passed_over,
    sends_out_of_order,
)
from pykbroker.testing.history.read_spans import stretches_of
from pykbroker.testing.history.recording import History
from pykbroker.testing.history.visibility import (
    duplicates,
    inconsistent_offsets,
    records_never_sent,
    records_shown_wrongly,
)


def check(history: History, *, allowed: Collection[Anomaly] = ()) -> list[Finding]:
    """All anomalies but the allowed ones; an empty list where everything can be true."""
    return [it for it in _findings(history) if it.anomaly not in allowed]


def expect_sound(history: History, *, allowed: Collection[Anomaly] = ()) -> None:
    """Raise an AssertionError that tells of all anomalies but the allowed ones."""
    findings = check(history, allowed=allowed)
    if findings:
        shown = "\n".join(map(str, findings[:_SHOWN_MAX]))
        raise AssertionError(f"{len(findings)} anomalies\n{shown}")


_SHOWN_MAX = 20


def _findings(history: History) -> Iterator[Finding]:
    evidence = Evidence(history.events)
    stretches = stretches_of(history.events)
    yield from inconsistent_offsets(evidence)
    yield from records_never_sent(evidence)
    yield from records_shown_wrongly(evidence)
    yield from duplicates(evidence)
    yield from lost_records(evidence, stretches)
    yield from polls_out_of_order(stretches)
    yield from records_passed_over(evidence, stretches)
    yield from sends_out_of_order(evidence)
