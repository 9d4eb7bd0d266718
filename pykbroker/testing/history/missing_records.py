"""Acknowledged records that nobody has read: lost, torn out of a transaction, or not read yet."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from pykbroker.testing.history.events import Outcome, Place
from pykbroker.testing.history.evidence import Evidence, Fate, KnownTransaction, Sent
from pykbroker.testing.history.findings import Anomaly, Finding
from pykbroker.testing.history.read_spans import Stretch


def lost_records(evidence: Evidence, stretches: Sequence[Stretch]) -> Iterator[Finding]:
    passed = Passed(stretches)
    torn: dict[KnownTransaction, list[Sent]] = defaultdict(list)
    for sent in evidence.sent:
        if not _must_be_there(sent, evidence) or _is_read(sent, evidence):
            continue
        if sent.place is None or sent.place not in passed:
            yield _missing(Anomaly.UNSEEN, sent, "nobody has read as far")
        elif sent.transaction in evidence.evidently_committed:
            torn[sent.transaction].append(sent)
        else:
            yield _missing(Anomaly.LOST_WRITE, sent, "and is not there")
    for told, missing in torn.items():
        yield _torn(told, missing, evidence)


class Passed:
    """Which places some reader has passed, whatever it found there."""

    def __init__(self, stretches: Iterable[Stretch]) -> None:
        spans: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
        for stretch in stretches:
            if stretch.read:
                offsets = [offset for offset, _ in stretch.read]
                start = min(offsets) if stretch.start is None else stretch.start
                spans[stretch.topic, stretch.partition].append((start, max(offsets)))
        self._spans = {place: _joined(sorted(them)) for place, them in spans.items()}

    def __contains__(self, place: Place) -> bool:
        spans = self._spans.get((place.topic, place.partition), [])
        index = bisect_left(spans, (place.offset + 1,)) - 1
        return index >= 0 and place.offset <= spans[index][1]


def _joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for start, end in spans:
        if found and start <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


def _must_be_there(sent: Sent, evidence: Evidence) -> bool:
    if sent.outcome is not Outcome.OK:
        return False
    return sent.fate is Fate.COUNTS or sent.transaction in evidence.evidently_committed


def _is_read(sent: Sent, evidence: Evidence) -> bool:
    """Where two records claim one place, that is another finding."""
    if sent.place is None:
        return (sent.asked.topic, sent.asked.value) in evidence.read_values
    found = evidence.at(sent)
    return found is None or found.is_read


def _missing(anomaly: Anomaly, sent: Sent, how: str) -> Finding:
    where = sent.place or f"an unknown offset of {sent.asked.topic}"
    return Finding(
        anomaly=anomaly,
        sentence=f"{sent.asked.value!r} of {sent.asked.client} was acknowledged at {where}, {how}",
        evidence=sent.events,
    )


def _torn(told: KnownTransaction, missing: Sequence[Sent], evidence: Evidence) -> Finding:
    there = [it for it in told.sends if _is_read(it, evidence)]
    absent = ", ".join(f"{it.asked.value!r} at {it.place}" for it in missing)
    return Finding(
        anomaly=Anomaly.TORN_TRANSACTION,
        sentence=f"{told.name} is there in part: {len(there)} records are read, {absent} not",
        evidence=tuple(event for it in (*there[:1], *missing[:1]) for event in it.events),
    )
