"""Combines the events of a history per record: sender, result, position and readers."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto

from pykbroker.testing.history.events import (
    Ended,
    Ending,
    Event,
    Isolation,
    Outcome,
    Polled,
    RecordId,
    SendEnded,
    SendStarted,
    TransactionBegun,
    TransactionEnded,
    TransactionEnding,
)
from pykbroker.testing.history.json_lines import MalformedHistoryError


class CommitState(Enum):
    """The commit state of a record, as far as its sender knows."""

    COMMITTED = auto()
    UNKNOWN = auto()
    NOT_COMMITTED = auto()


@dataclass(slots=True, kw_only=True, eq=False)
class KnownTransaction:
    """A transaction as its client knows it."""

    begun: TransactionBegun
    commit_requested: TransactionEnding | None = None
    ended: TransactionEnded | None = None
    sends: list["Sent"] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"transaction {self.begun.transaction} of {self.begun.client}"

    @property
    def commit_state(self) -> CommitState:
        if self.ended is not None and self.ended.ended is Ended.COMMITTED:
            return CommitState.COMMITTED
        if self.ended is not None and self.ended.ended is Ended.ABORTED:
            return CommitState.NOT_COMMITTED
        return CommitState.NOT_COMMITTED if self.commit_requested is None else CommitState.UNKNOWN


@dataclass(slots=True, kw_only=True, eq=False)
class Sent:
    """A send with its result and its transaction."""

    started: SendStarted
    transaction: KnownTransaction | None
    ended: SendEnded | None = None

    @property
    def record_id(self) -> RecordId | None:
        """The position in the producer's acknowledgement."""
        ended = self.ended
        if ended is None or ended.partition is None or ended.offset is None:
            return None
        return RecordId(self.started.topic, ended.partition, ended.offset)

    @property
    def outcome(self) -> Outcome:
        return Outcome.UNKNOWN if self.ended is None else self.ended.outcome

    @property
    def commit_state(self) -> CommitState:
        match self.outcome:
            case Outcome.FAILED:
                return CommitState.NOT_COMMITTED
            case Outcome.OK:
                return (
                    CommitState.COMMITTED
                    if self.transaction is None
                    else self.transaction.commit_state
                )
            case Outcome.UNKNOWN:
                aborted = (
                    self.transaction and self.transaction.commit_state is CommitState.NOT_COMMITTED
                )
                return CommitState.NOT_COMMITTED if aborted else CommitState.UNKNOWN

    def may_be_visible_to(self, isolation: Isolation) -> bool:
        if self.outcome is Outcome.FAILED:
            return False
        if isolation is Isolation.READ_COMMITTED:
            return self.commit_state is not CommitState.NOT_COMMITTED
        return True

    def may_be_in(self, partition: int) -> bool:
        return self.record_id is None and self.started.partition in {None, partition}

    @property
    def events(self) -> tuple[Event, ...]:
        found: list[Event | None] = [self.started, self.ended]
        if self.transaction is not None:
            found += [self.transaction.commit_requested, self.transaction.ended]
        return tuple(it for it in found if it is not None)


@dataclass(slots=True, kw_only=True, eq=False)
class Found:
    """A value at a position that producers, readers or both have reported."""

    record_id: RecordId
    value: str
    acknowledged: list[Sent] = field(default_factory=list)
    polls: list[Polled] = field(default_factory=list)
    senders: list[Sent] = field(default_factory=list)
    """Sends of this record: acknowledged ones, else unanswered ones, else any with this value."""

    @property
    def is_read(self) -> bool:
        return bool(self.polls)

    @property
    def is_read_committed(self) -> bool:
        return any(it.isolation is Isolation.READ_COMMITTED for it in self.polls)

    @property
    def is_committed(self) -> bool:
        """True if the record is certainly committed, so that every reader must get it."""
        possible = [it for it in self.senders if it.commit_state is not CommitState.NOT_COMMITTED]
        if any(it.commit_state is CommitState.COMMITTED for it in self.acknowledged):
            return True
        if self.is_read_committed:
            return bool(possible)
        return self.is_read and any(it.transaction is None for it in possible)

    def polls_of(self, isolation: Isolation) -> Iterator[Polled]:
        return (it for it in self.polls if it.isolation is isolation)


class Evidence:
    """All sends and all records of one history."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.sent: list[Sent] = []
        self.transactions: dict[tuple[str, int], KnownTransaction] = {}
        self.found: dict[RecordId, dict[str, Found]] = defaultdict(dict)
        self.by_value: dict[tuple[str, str], list[Sent]] = defaultdict(list)
        self._sends: dict[tuple[str, int], Sent] = {}
        for event in events:
            try:
                self._take(event)
            except KeyError:
                raise MalformedHistoryError(f"event without a matching start: {event}") from None
        self._add_acknowledged()
        self._find_senders()
        self.contested = {record_id for record_id, found in self.found.items() if len(found) > 1}
        self.read_values = {
            (it.record_id.topic, it.value) for it in self.at_record_ids() if it.is_read
        }
        self.evidently_committed = set(self._read_transactions())

    def at_record_ids(self) -> Iterator[Found]:
        """Yields the record at each position, except positions with contradicting values."""
        for record_id, found in self.found.items():
            if record_id not in self.contested:
                yield from found.values()

    def at(self, sent: Sent) -> Found | None:
        """The record of an acknowledged send; None if its position is unknown or contested."""
        if sent.record_id is None or sent.record_id in self.contested:
            return None
        return self.found[sent.record_id][sent.started.value]

    def _read_transactions(self) -> Iterator["KnownTransaction"]:
        """Yields committed transactions of which a record was read.

        A record that read_committed returned proves that its transaction is committed.
        """
        for found in self.at_record_ids():
            senders = {it.transaction for it in found.senders} if found.is_read else set()
            transaction = senders.pop() if len(senders) == 1 else None
            if transaction is None or transaction.commit_state is CommitState.NOT_COMMITTED:
                continue
            if transaction.commit_state is CommitState.COMMITTED or found.is_read_committed:
                yield transaction

    def _take(self, event: Event) -> None:
        match event:
            case SendStarted():
                self._take_send(event)
            case SendEnded():
                self._sends[event.client, event.send].ended = event
            case TransactionBegun():
                self.transactions[event.client, event.transaction] = KnownTransaction(begun=event)
            case TransactionEnding(ending=Ending.COMMIT):
                transaction = self.transactions[event.client, event.transaction]
                transaction.commit_requested = transaction.commit_requested or event
            case TransactionEnded():
                self.transactions[event.client, event.transaction].ended = event
            case Polled():
                for record in event.records:
                    self._at(record.record_id, record.value).polls.append(event)
            case _:
                pass

    def _take_send(self, event: SendStarted) -> None:
        transaction = None
        if event.transaction is not None:
            transaction = self.transactions[event.client, event.transaction]
        sent = Sent(started=event, transaction=transaction)
        if transaction is not None:
            transaction.sends.append(sent)
        self.sent.append(sent)
        self._sends[event.client, event.send] = sent
        self.by_value[event.topic, event.value].append(sent)

    def _add_acknowledged(self) -> None:
        for sent in self.sent:
            if sent.outcome is Outcome.OK and sent.record_id is not None:
                self._at(sent.record_id, sent.started.value).acknowledged.append(sent)

    def _find_senders(self) -> None:
        for by_value in self.found.values():
            for found in by_value.values():
                found.senders = found.acknowledged or self._possible_senders(found)

    def _possible_senders(self, found: Found) -> list[Sent]:
        of_this_value = self.by_value.get((found.record_id.topic, found.value), [])
        unanswered = [it for it in of_this_value if it.may_be_in(found.record_id.partition)]
        return unanswered or of_this_value

    def _at(self, record_id: RecordId, value: str) -> Found:
        by_value = self.found[record_id]
        if value not in by_value:
            by_value[value] = Found(record_id=record_id, value=value)
        return by_value[value]
