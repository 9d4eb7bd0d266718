"""Records that were read, or written, in another order than they lie or were sent."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator

from pykbroker.testing.history.evidence import Evidence, Found, Sent
from pykbroker.testing.history.findings import Anomaly, Finding
from pykbroker.testing.history.read_spans import Step, Stretch


def polls_out_of_order(stretches: Iterable[Stretch]) -> Iterator[Finding]:
    for stretch in stretches:
        for step in stretch.steps():
            if step.before <= step.after:
                internal = Anomaly.INTERNAL_NON_MONOTONIC_POLL
                yield Finding(
                    anomaly=internal if step.is_internal else Anomaly.NON_MONOTONIC_POLL,
                    sentence=f"{_reader(stretch)} was at offset {step.after + 1} and was given "
                    f"offset {step.before}",
                    evidence=(step.poll,),
                )


def records_passed_over(evidence: Evidence, stretches: Iterable[Stretch]) -> Iterator[Finding]:
    """What one reader left out and another was shown; what nobody was shown is lost."""
    there = _offsets_to_be_read(evidence)
    for stretch in stretches:
        found = there.get((stretch.topic, stretch.partition), [])
        for step in stretch.steps():
            first = bisect_right(found, step.after)
            end = bisect_left(found, step.before)
            passed_over = [] if first >= end else stretch.without_its_own(found[first:end])
            if passed_over:
                yield _passed_over(stretch, step, passed_over)


def sends_out_of_order(evidence: Evidence) -> Iterator[Finding]:
    last: dict[tuple[str, str, int], Sent] = {}
    for sent in evidence.sent:
        place = sent.place
        if place is None or place in evidence.contested:
            continue
        producer = (sent.asked.client, place.topic, place.partition)
        before = last.get(producer)
        last[producer] = sent
        if before is not None and before.place is not None and place <= before.place:
            yield _sent_out_of_order(before, sent)


def _offsets_to_be_read(evidence: Evidence) -> dict[tuple[str, int], list[int]]:
    """In order, for each partition."""
    found: dict[tuple[str, int], list[int]] = defaultdict(list)
    for it in evidence.at_places():
        if it.is_read and _must_be_shown(it):
            found[it.place.topic, it.place.partition].append(it.place.offset)
    for offsets in found.values():
        offsets.sort()
    return found


def _must_be_shown(found: Found) -> bool:
    return bool(found.senders) and found.counts


def _passed_over(stretch: Stretch, step: Step, offsets: list[int]) -> Finding:
    named = f"offset {offsets[0]}" if len(offsets) == 1 else f"{len(offsets)} records"
    return Finding(
        anomaly=Anomaly.INTERNAL_SKIPPED_POLL if step.is_internal else Anomaly.SKIPPED_POLL,
        sentence=f"{_reader(stretch)} was at offset {step.after + 1} and was given "
        f"offset {step.before}; {named} between them can be read",
        evidence=(step.poll,),
    )


def _reader(stretch: Stretch) -> str:
    return f"{stretch.client} on {stretch.topic}-{stretch.partition}"


def _sent_out_of_order(before: Sent, after: Sent) -> Finding:
    inside = after.asked.transaction is not None and (
        before.asked.transaction == after.asked.transaction
    )
    return Finding(
        anomaly=Anomaly.INTERNAL_NON_MONOTONIC_SEND if inside else Anomaly.NON_MONOTONIC_SEND,
        sentence=f"{after.asked.client} sent {before.asked.value!r}, then {after.asked.value!r}; "
        f"they are {before.place} and {after.place}",
        evidence=tuple(it for it in (before.ended, after.ended) if it is not None),
    )
