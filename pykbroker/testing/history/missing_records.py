"""Acknowledged records that no client read: lost, missing from a transaction, or not read yet."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from pykbroker.testing.history.events import Outcome, RecordId
from pykbroker.testing.history.evidence import CommitState, Evidence, KnownTransaction, Sent
from pykbroker.testing.history.findings import Anomaly, Finding
from pykbroker.testing.history.read_spans import ReadSpan


def lost_records(evidence: Evidence, spans: Sequence[ReadSpan]) -> Iterator[Finding]:
    passed = PassedPositions(spans)
    torn: dict[KnownTransaction, list[Sent]] = defaultdict(list)
    for sent in evidence.sent:
        if not _must_be_readable(sent, evidence) or _is_read(sent, evidence):
            continue
        if sent.record_id is None or sent.record_id not in passed:
            yield _missing(Anomaly.UNSEEN, sent, "but no client has read that far")
        elif sent.transaction in evidence.evidently_committed:
            torn[sent.transaction].append(sent)
        else:
            yield _missing(Anomaly.LOST_WRITE, sent, "but is missing")
    for transaction, missing in torn.items():
        yield _torn(transaction, missing, evidence)


class PassedPositions:
    """The positions that at least one reader has passed."""

    def __init__(self, spans: Iterable[ReadSpan]) -> None:
        ranges: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
        for span in spans:
            if span.read:
                offsets = [offset for offset, _ in span.read]
                start = min(offsets) if span.start is None else span.start
                ranges[span.topic, span.partition].append((start, max(offsets)))
        self._ranges = {partition: _merged(sorted(found)) for partition, found in ranges.items()}

    def __contains__(self, record_id: RecordId) -> bool:
        ranges = self._ranges.get((record_id.topic, record_id.partition), [])
        index = bisect_left(ranges, (record_id.offset + 1,)) - 1
        return index >= 0 and record_id.offset <= ranges[index][1]


def _merged(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for start, end in ranges:
        if found and start <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


def _must_be_readable(sent: Sent, evidence: Evidence) -> bool:
    if sent.outcome is not Outcome.OK:
        return False
    return (
        sent.commit_state is CommitState.COMMITTED
        or sent.transaction in evidence.evidently_committed
    )


def _is_read(sent: Sent, evidence: Evidence) -> bool:
    """True also for contested positions: those are a finding of their own."""
    if sent.record_id is None:
        return (sent.started.topic, sent.started.value) in evidence.read_values
    found = evidence.at(sent)
    return found is None or found.is_read


def _missing(anomaly: Anomaly, sent: Sent, how: str) -> Finding:
    where = sent.record_id or f"an unknown offset of {sent.started.topic}"
    record = f"{sent.started.value!r} of {sent.started.client}"
    return Finding(
        anomaly=anomaly,
        sentence=f"{record} was acknowledged at {where}, {how}",
        evidence=sent.events,
    )


def _torn(transaction: KnownTransaction, missing: Sequence[Sent], evidence: Evidence) -> Finding:
    read = [it for it in transaction.sends if _is_read(it, evidence)]
    absent = ", ".join(f"{it.started.value!r} at {it.record_id}" for it in missing)
    return Finding(
        anomaly=Anomaly.TORN_TRANSACTION,
        sentence=f"{transaction.name}: records read: {len(read)}, missing: {absent}",
        evidence=tuple(event for it in (*read[:1], *missing[:1]) for event in it.events),
    )
