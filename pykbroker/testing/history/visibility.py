"""Records that should not be where they are, or should not have been shown."""

from collections import defaultdict
from collections.abc import Iterator

from pykbroker.testing.history.events import Event, Isolation, Polled
from pykbroker.testing.history.evidence import Evidence, Found
from pykbroker.testing.history.findings import Anomaly, Finding


def inconsistent_offsets(evidence: Evidence) -> Iterator[Finding]:
    for place in sorted(evidence.contested):
        by_value = evidence.found[place]
        values = " and ".join(repr(it) for it in by_value)
        yield Finding(
            anomaly=Anomaly.INCONSISTENT_OFFSETS,
            sentence=f"{place} holds {values}",
            evidence=tuple(it for found in by_value.values() for it in _witnesses(found)),
        )


def records_never_sent(evidence: Evidence) -> Iterator[Finding]:
    """Only of topics that somebody writes to: the others have their records from elsewhere."""
    topics = {topic for topic, _ in evidence.by_value}
    for found in evidence.at_places():
        if not found.senders and found.place.topic in topics:
            yield Finding(
                anomaly=Anomaly.NEVER_SENT,
                sentence=f"{found.value!r} at {found.place} was sent by nobody",
                evidence=tuple(found.polls[:1]),
            )


def records_shown_wrongly(evidence: Evidence) -> Iterator[Finding]:
    """Refused and aborted records, and those whose commit came after the reading."""
    for found in evidence.at_places():
        if not found.senders or not found.is_read:
            continue
        aborted = next(_polls_of_what_never_counts(found), None)
        if aborted is not None:
            yield _shown(Anomaly.ABORTED_READ, found, aborted)
            continue
        early = next(_polls_before_the_commit(found), None)
        if early is not None:
            yield _shown(Anomaly.PRECOMMITTED_READ, found, early)


def duplicates(evidence: Evidence) -> Iterator[Finding]:
    by_value: dict[tuple[str, str], list[Found]] = defaultdict(list)
    for found in evidence.at_places():
        if found.counts:
            by_value[found.place.topic, found.value].append(found)
    for (_, value), copies in by_value.items():
        if len(copies) > 1:
            places = " and ".join(str(it.place) for it in copies)
            yield Finding(
                anomaly=Anomaly.DUPLICATE,
                sentence=f"{value!r} is there twice: {places}",
                evidence=tuple(it for found in copies for it in _witnesses(found)),
            )


def _polls_of_what_never_counts(found: Found) -> Iterator[Polled]:
    for isolation in Isolation:
        if not any(it.may_be_shown_to(isolation) for it in found.senders):
            yield from found.polls_of(isolation)


def _polls_before_the_commit(found: Found) -> Iterator[Polled]:
    """No poll returns what nobody had asked to be committed when it returned."""
    asked_ns = []
    for sent in found.senders:
        if sent.transaction is None:
            return
        if sent.transaction.commit_asked is not None:
            asked_ns.append(sent.transaction.commit_asked.at_ns)
    for poll in found.polls_of(Isolation.READ_COMMITTED):
        if poll.at_ns < min(asked_ns):
            yield poll


def _shown(anomaly: Anomaly, found: Found, poll: Polled) -> Finding:
    sent = found.senders[0]
    told = f", of {sent.transaction.name}" if sent.transaction else f", sent by {sent.asked.client}"
    return Finding(
        anomaly=anomaly,
        sentence=f"{poll.client} read {found.value!r} at {found.place}{told}",
        evidence=(*sent.events, poll),
    )


def _witnesses(found: Found) -> list[Event]:
    told = [it for sent in found.acknowledged[:1] for it in (sent.asked, sent.ended) if it]
    return [*told, *found.polls[:1]]
