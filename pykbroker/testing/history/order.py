"""Records that were read in another order than stored, or stored in another order than sent."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator

from pykbroker.testing.history.evidence import Evidence, Found, Sent
from pykbroker.testing.history.findings import Anomaly, Finding
from pykbroker.testing.history.read_spans import ReadSpan, Step


def polls_out_of_order(spans: Iterable[ReadSpan]) -> Iterator[Finding]:
    for span in spans:
        for step in span.steps():
            if step.before <= step.after:
                internal = Anomaly.INTERNAL_NON_MONOTONIC_POLL
                yield Finding(
                    anomaly=internal if step.is_internal else Anomaly.NON_MONOTONIC_POLL,
                    sentence=f"{_reader(span)} was at offset {step.after + 1} and got "
                    f"offset {step.before}",
                    evidence=(step.poll,),
                )


def records_skipped(evidence: Evidence, spans: Iterable[ReadSpan]) -> Iterator[Finding]:
    """Records that one reader skipped and another got. Records that no reader got are lost."""
    readable = _offsets_to_be_read(evidence)
    for span in spans:
        found = readable.get((span.topic, span.partition), [])
        for step in span.steps():
            first = bisect_right(found, step.after)
            end = bisect_left(found, step.before)
            skipped = [] if first >= end else span.not_read_here(found[first:end])
            if skipped:
                yield _skipped(span, step, skipped)


def sends_out_of_order(evidence: Evidence) -> Iterator[Finding]:
    last: dict[tuple[str, str, int], Sent] = {}
    for sent in evidence.sent:
        record_id = sent.record_id
        if record_id is None or record_id in evidence.contested:
            continue
        producer = (sent.started.client, record_id.topic, record_id.partition)
        before = last.get(producer)
        last[producer] = sent
        if before is not None and before.record_id is not None and record_id <= before.record_id:
            yield _sent_out_of_order(before, sent)


def _offsets_to_be_read(evidence: Evidence) -> dict[tuple[str, int], list[int]]:
    """The offsets of committed records that were read, sorted, per partition."""
    found: dict[tuple[str, int], list[int]] = defaultdict(list)
    for it in evidence.at_record_ids():
        if it.is_read and _must_be_visible(it):
            found[it.record_id.topic, it.record_id.partition].append(it.record_id.offset)
    for offsets in found.values():
        offsets.sort()
    return found


def _must_be_visible(found: Found) -> bool:
    return bool(found.senders) and found.is_committed


def _skipped(span: ReadSpan, step: Step, offsets: list[int]) -> Finding:
    named = f"offset {offsets[0]}" if len(offsets) == 1 else f"{len(offsets)} records"
    return Finding(
        anomaly=Anomaly.INTERNAL_SKIPPED_POLL if step.is_internal else Anomaly.SKIPPED_POLL,
        sentence=f"{_reader(span)} was at offset {step.after + 1} and got "
        f"offset {step.before}; skipped {named} in between",
        evidence=(step.poll,),
    )


def _reader(span: ReadSpan) -> str:
    return f"{span.client} on {span.topic}-{span.partition}"


def _sent_out_of_order(before: Sent, after: Sent) -> Finding:
    inside = after.started.transaction is not None and (
        before.started.transaction == after.started.transaction
    )
    return Finding(
        anomaly=Anomaly.INTERNAL_NON_MONOTONIC_SEND if inside else Anomaly.NON_MONOTONIC_SEND,
        sentence=f"{after.started.client} sent {before.started.value!r}, then "
        f"{after.started.value!r}; stored as {before.record_id} and {after.record_id}",
        evidence=tuple(it for it in (before.ended, after.ended) if it is not None),
    )
