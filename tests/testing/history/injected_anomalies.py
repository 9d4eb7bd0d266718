"""Changes that turn a valid history into one with exactly one anomaly."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

from pykbroker.testing.history import Anomaly, Event, Isolation, Outcome, Record, RecordId
from pykbroker.testing.history.events import Ended, Polled
from pykbroker.testing.history.evidence import CommitState, Evidence, Found, Sent
from pykbroker.testing.history.read_spans import read_spans_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from random import Random

    Injection = Callable[[list[Event], Random], list[Event]]

T = TypeVar("T")
LATE_NS = 1 << 62


class NotApplicableError(Exception):
    """Raised if the history has no suitable record for the anomaly."""


# --- missing records


def lost_write(events: list[Event], chance: Random) -> list[Event]:
    chosen = pick(chance, (it for it in passed(events) if is_not_transactional(it)))
    return without(events, chosen.record_id)


def unseen(events: list[Event], chance: Random) -> list[Event]:
    last = {(it.topic, it.partition): it for it in sorted(record_ids_read(events))}.values()
    chosen = pick(
        chance,
        (it for it in read_by_all(events) if is_not_transactional(it) and it.record_id in last),
    )
    return without(events, chosen.record_id)


def torn_transaction(events: list[Event], chance: Random) -> list[Event]:
    readable = {it.record_id for it in read_by_all(events)}
    chosen = pick(chance, (it for it in passed(events) if has_readable_siblings(it, readable)))
    return without(events, chosen.record_id)


# --- records that must not be read


def aborted_read(events: list[Event], chance: Random) -> list[Event]:
    chosen = pick(chance, (it for it in read_by_all(events) if is_transactional(it)))
    transaction = sent_of(chosen).transaction
    if transaction is None or transaction.ended is None:
        raise NotApplicableError
    return replaced(events, transaction.ended, replace(transaction.ended, ended=Ended.ABORTED))


def refused_read(events: list[Event], chance: Random) -> list[Event]:
    chosen = pick(chance, (it for it in read_by_all(events) if is_not_transactional(it)))
    ended = sent_of(chosen).ended
    if ended is None:
        raise NotApplicableError
    refused = replace(ended, outcome=Outcome.FAILED, partition=None, offset=None)
    return replaced(events, ended, refused)


def precommitted_read(events: list[Event], chance: Random) -> list[Event]:
    chosen = pick(chance, (it for it in read_by_all(events) if is_transactional(it)))
    transaction = sent_of(chosen).transaction
    if transaction is None or transaction.commit_requested is None:
        raise NotApplicableError
    return replaced(
        events, transaction.commit_requested, replace(transaction.commit_requested, at_ns=LATE_NS)
    )


def duplicate(events: list[Event], chance: Random) -> list[Event]:
    chosen = pick(chance, read_by_all(events))
    return added_at_the_end(events, chosen.record_id, chosen.value)


def never_sent(events: list[Event], chance: Random) -> list[Event]:
    chosen = pick(chance, read_by_all(events))
    return added_at_the_end(events, chosen.record_id, "from nowhere")


def inconsistent_offsets(events: list[Event], chance: Random) -> list[Event]:
    chosen = pick(chance, read_by_all(events))
    poll = chance.choice(chosen.polls)
    records = [
        it._replace(value="another") if it.record_id == chosen.record_id else it
        for it in poll.records
    ]
    return replaced(events, poll, replace(poll, records=tuple(records)))


# --- order


def non_monotonic_poll(events: list[Event], chance: Random) -> list[Event]:
    chosen = pick(chance, read_by_all(events))
    poll = chosen.polls[-1]  # by one of the last readers, whose positions do not change
    return [*events, replace(poll, records=(record_of(chosen),))]


def internal_non_monotonic_poll(events: list[Event], chance: Random) -> list[Event]:
    neighbours = [
        (poll, index)
        for poll in polls(events)
        for index, (earlier, later) in enumerate(pairwise(poll.records))
        if earlier.partition == later.partition
    ]
    poll, index = pick(chance, neighbours)
    records = list(poll.records)
    records[index : index + 2] = reversed(records[index : index + 2])
    return replaced(events, poll, replace(poll, records=tuple(records)))


def skipped_poll(events: list[Event], chance: Random) -> list[Event]:
    return skipped(events, chance, is_internal=False)


def internal_skipped_poll(events: list[Event], chance: Random) -> list[Event]:
    return skipped(events, chance, is_internal=True)


def skipped(events: list[Event], chance: Random, *, is_internal: bool) -> list[Event]:
    shown = {
        it.record_id
        for it in read_by_all(events)
        if sent_of(it).commit_state is CommitState.COMMITTED
    }
    chances = [
        (poll, RecordId(span.topic, span.partition, offset))
        for span in read_spans_of(events)
        for (_, before), (offset, poll), (_, after) in triples(span.read)
        if (before is after) == is_internal
    ]
    chosen = [(poll, record_id) for poll, record_id in chances if record_id in shown]
    poll, record_id = pick(chance, chosen)
    return replaced(events, poll, without_record(poll, record_id))


def non_monotonic_send(events: list[Event], chance: Random) -> list[Event]:
    return exchanged(events, chance, is_internal=False)


def internal_non_monotonic_send(events: list[Event], chance: Random) -> list[Event]:
    return exchanged(events, chance, is_internal=True)


def exchanged(events: list[Event], chance: Random, *, is_internal: bool) -> list[Event]:
    """Swaps two consecutive sends of one producer."""
    acknowledged: dict[tuple[str, int], list[Sent]] = {}
    for sent in Evidence(events).sent:
        if sent.record_id is not None and (sent.transaction is not None) == is_internal:
            producer = (sent.started.client, sent.record_id.partition)
            acknowledged.setdefault(producer, []).append(sent)
    pairs = [
        (earlier, later)
        for sends in acknowledged.values()
        for earlier, later in pairwise(sends)
        if earlier.transaction is later.transaction
    ]
    earlier, later = pick(chance, pairs)
    return exchange(exchange(events, earlier, later), later, earlier)


def exchange(events: list[Event], sent: Sent, other: Sent) -> list[Event]:
    assert sent.ended is not None
    assert other.ended is not None
    started = replace(sent.started, value=other.started.value, partition=other.started.partition)
    ended = replace(sent.ended, offset=other.ended.offset)
    return replaced(replaced(events, sent.started, started), sent.ended, ended)


INJECTIONS: dict[Anomaly, Injection] = {
    Anomaly.LOST_WRITE: lost_write,
    Anomaly.UNSEEN: unseen,
    Anomaly.ABORTED_READ: aborted_read,
    Anomaly.PRECOMMITTED_READ: precommitted_read,
    Anomaly.TORN_TRANSACTION: torn_transaction,
    Anomaly.DUPLICATE: duplicate,
    Anomaly.INCONSISTENT_OFFSETS: inconsistent_offsets,
    Anomaly.NEVER_SENT: never_sent,
    Anomaly.NON_MONOTONIC_POLL: non_monotonic_poll,
    Anomaly.INTERNAL_NON_MONOTONIC_POLL: internal_non_monotonic_poll,
    Anomaly.SKIPPED_POLL: skipped_poll,
    Anomaly.INTERNAL_SKIPPED_POLL: internal_skipped_poll,
    Anomaly.NON_MONOTONIC_SEND: non_monotonic_send,
    Anomaly.INTERNAL_NON_MONOTONIC_SEND: internal_non_monotonic_send,
}


# --- selecting a record


def read_by_all(events: list[Event]) -> list[Found]:
    """The records that both final readers have read."""
    return [it for it in Evidence(events).at_record_ids() if it.is_read_committed]


def passed(events: list[Event]) -> list[Found]:
    """The records with readable records before and after them in the partition."""
    readable = read_by_all(events)
    offsets: dict[int, list[int]] = {}
    for it in readable:
        offsets.setdefault(it.record_id.partition, []).append(it.record_id.offset)
    return [
        it
        for it in readable
        if min(offsets[it.record_id.partition])
        < it.record_id.offset
        < max(offsets[it.record_id.partition])
    ]


def sent_of(found: Found) -> Sent:
    (sent,) = found.senders
    return sent


def is_not_transactional(found: Found) -> bool:
    sent = sent_of(found)
    return sent.outcome is Outcome.OK and sent.transaction is None


def is_transactional(found: Found) -> bool:
    sent = sent_of(found)
    return sent.outcome is Outcome.OK and sent.transaction is not None


def has_readable_siblings(found: Found, readable: set[RecordId]) -> bool:
    """True if other records of its transaction are readable."""
    transaction = sent_of(found).transaction
    return (
        is_transactional(found)
        and transaction is not None
        and any(
            it.record_id in readable for it in transaction.sends if it.record_id != found.record_id
        )
    )


def record_ids_read(events: list[Event]) -> set[RecordId]:
    return {it.record_id for poll in polls(events) for it in poll.records}


def polls(events: list[Event]) -> list[Polled]:
    return [it for it in events if isinstance(it, Polled)]


def pick(chance: Random, found: Iterable[T]) -> T:
    choices = list(found)
    if not choices:
        raise NotApplicableError
    return chance.choice(choices)


def triples(
    read: list[tuple[int, Polled]],
) -> Iterable[tuple[tuple[int, Polled], tuple[int, Polled], tuple[int, Polled]]]:
    return zip(read, read[1:], read[2:], strict=False)


# --- changing events


def replaced(events: list[Event], old: Event, new: Event) -> list[Event]:
    return [new if it is old else it for it in events]


def without(events: list[Event], record_id: RecordId) -> list[Event]:
    """Removes the record from all polls."""
    return [without_record(it, record_id) if isinstance(it, Polled) else it for it in events]


def without_record(poll: Polled, record_id: RecordId) -> Polled:
    return replace(poll, records=tuple(it for it in poll.records if it.record_id != record_id))


def record_of(found: Found) -> Record:
    return Record(*found.record_id, found.value)


def added_at_the_end(events: list[Event], record_id: RecordId, value: str) -> list[Event]:
    """Adds a record at the end of a partition to the polls of both final readers."""
    known = [it.record_id for it in Evidence(events).at_record_ids()]
    offset = 1 + max(it.offset for it in known if it.partition == record_id.partition)
    record = Record(record_id.topic, record_id.partition, offset, value)
    last = {it.isolation: it for it in polls(events)}
    return [*events, *(replace(last[it], records=(record,)) for it in Isolation if it in last)]
