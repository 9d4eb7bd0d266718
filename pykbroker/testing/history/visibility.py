"""Records at contradicting positions, and records that readers should not have got."""

from collections import defaultdict
from collections.abc import Iterator

from pykbroker.testing.history.events import Event, Isolation, Polled
from pykbroker.testing.history.evidence import Evidence, Found
from pykbroker.testing.history.findings import Anomaly, Finding


def inconsistent_offsets(evidence: Evidence) -> Iterator[Finding]:
    for record_id in sorted(evidence.contested):
        by_value = evidence.found[record_id]
        values = " and ".join(repr(it) for it in by_value)
        yield Finding(
            anomaly=Anomaly.INCONSISTENT_OFFSETS,
            sentence=f"{record_id} holds {values}",
            evidence=tuple(it for found in by_value.values() for it in _witnesses(found)),
        )


def records_never_sent(evidence: Evidence) -> Iterator[Finding]:
    """Checks only topics that clients of the history write to."""
    topics = {topic for topic, _ in evidence.by_value}
    for found in evidence.at_record_ids():
        if not found.senders and found.record_id.topic in topics:
            yield Finding(
                anomaly=Anomaly.NEVER_SENT,
                sentence=f"{found.value!r} at {found.record_id} was not sent by any client",
                evidence=tuple(found.polls[:1]),
            )


def records_read_wrongly(evidence: Evidence) -> Iterator[Finding]:
    """Rejected and aborted records, and records that were read before the commit was requested."""
    for found in evidence.at_record_ids():
        if not found.senders or not found.is_read:
            continue
        aborted = next(_polls_of_uncommitted(found), None)
        if aborted is not None:
            yield _wrongly_read(Anomaly.ABORTED_READ, found, aborted)
            continue
        early = next(_polls_before_the_commit(found), None)
        if early is not None:
            yield _wrongly_read(Anomaly.PRECOMMITTED_READ, found, early)


def duplicates(evidence: Evidence) -> Iterator[Finding]:
    by_value: dict[tuple[str, str], list[Found]] = defaultdict(list)
    for found in evidence.at_record_ids():
        if found.is_committed:
            by_value[found.record_id.topic, found.value].append(found)
    for (_, value), copies in by_value.items():
        if len(copies) > 1:
            record_ids = " and ".join(str(it.record_id) for it in copies)
            yield Finding(
                anomaly=Anomaly.DUPLICATE,
                sentence=f"{value!r} is stored {len(copies)} times: {record_ids}",
                evidence=tuple(it for found in copies for it in _witnesses(found)),
            )


def _polls_of_uncommitted(found: Found) -> Iterator[Polled]:
    for isolation in Isolation:
        if not any(it.may_be_visible_to(isolation) for it in found.senders):
            yield from found.polls_of(isolation)


def _polls_before_the_commit(found: Found) -> Iterator[Polled]:
    """read_committed polls that returned before any sender requested the commit."""
    requested_ns = []
    for sent in found.senders:
        if sent.transaction is None:
            return
        if sent.transaction.commit_requested is not None:
            requested_ns.append(sent.transaction.commit_requested.at_ns)
    for poll in found.polls_of(Isolation.READ_COMMITTED):
        if poll.at_ns < min(requested_ns):
            yield poll


def _wrongly_read(anomaly: Anomaly, found: Found, poll: Polled) -> Finding:
    sent = found.senders[0]
    origin = f"of {sent.transaction.name}" if sent.transaction else f"sent by {sent.started.client}"
    return Finding(
        anomaly=anomaly,
        sentence=f"{poll.client} read {found.value!r} at {found.record_id}, {origin}",
        evidence=(*sent.events, poll),
    )


def _witnesses(found: Found) -> list[Event]:
    sends = [it for sent in found.acknowledged[:1] for it in (sent.started, sent.ended) if it]
    return [*sends, *found.polls[:1]]
