"""What a history tells of each record: its sender, its fate, its place and its readers."""

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
    Place,
    Polled,
    SendAsked,
    SendEnded,
    TransactionBegun,
    TransactionEnded,
    TransactionEnding,
)
from pykbroker.testing.history.json_lines import MalformedHistoryError


class Fate(Enum):
    """Whether a record counts."""

    COUNTS = auto()
    MAY_COUNT = auto()
    NEVER_COUNTS = auto()


@dataclass(slots=True, kw_only=True, eq=False)
class KnownTransaction:
    """A transaction as its client knows it."""

    begun: TransactionBegun
    commit_asked: TransactionEnding | None = None
    ended: TransactionEnded | None = None
    sends: list["Sent"] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"transaction {self.begun.transaction} of {self.begun.client}"

    @property
    def fate(self) -> Fate:
        if self.ended is not None and self.ended.ended is Ended.COMMITTED:
            return Fate.COUNTS
        if self.ended is not None and self.ended.ended is Ended.ABORTED:
            return Fate.NEVER_COUNTS
        return Fate.NEVER_COUNTS if self.commit_asked is None else Fate.MAY_COUNT


@dataclass(slots=True, kw_only=True, eq=False)
class Sent:
    """A send, what came of it, and the transaction it belongs to."""

    asked: SendAsked
    transaction: KnownTransaction | None
    ended: SendEnded | None = None

    @property
    def place(self) -> Place | None:
        """Where the producer was told that the record lies."""
        ended = self.ended
        if ended is None or ended.partition is None or ended.offset is None:
            return None
        return Place(self.asked.topic, ended.partition, ended.offset)

    @property
    def outcome(self) -> Outcome:
        return Outcome.UNKNOWN if self.ended is None else self.ended.outcome

    @property
    def fate(self) -> Fate:
        match self.outcome:
            case Outcome.FAILED:
                return Fate.NEVER_COUNTS
            case Outcome.OK:
                return Fate.COUNTS if self.transaction is None else self.transaction.fate
            case Outcome.UNKNOWN:
                aborted = self.transaction and self.transaction.fate is Fate.NEVER_COUNTS
                return Fate.NEVER_COUNTS if aborted else Fate.MAY_COUNT

    def may_be_shown_to(self, isolation: Isolation) -> bool:
        if self.outcome is Outcome.FAILED:
            return False
        if isolation is Isolation.READ_COMMITTED:
            return self.fate is not Fate.NEVER_COUNTS
        return True

    def may_be_there(self, partition: int) -> bool:
        return self.place is None and self.asked.partition in {None, partition}

    @property
    def events(self) -> tuple[Event, ...]:
        found: list[Event | None] = [self.asked, self.ended]
        if self.transaction is not None:
            found += [self.transaction.commit_asked, self.transaction.ended]
        return tuple(it for it in found if it is not None)


@dataclass(slots=True, kw_only=True, eq=False)
class Found:
    """A value at a place, by the word of producers, readers or both."""

    place: Place
    value: str
    acknowledged: list[Sent] = field(default_factory=list)
    polls: list[Polled] = field(default_factory=list)
    senders: list[Sent] = field(default_factory=list)
    """Whose record this is: those told so, else those who may not have been told, else any."""

    @property
    def is_read(self) -> bool:
        return bool(self.polls)

    @property
    def is_read_committed(self) -> bool:
        return any(it.isolation is Isolation.READ_COMMITTED for it in self.polls)

    @property
    def counts(self) -> bool:
        """It is certain that every reader has to be shown this."""
        possible = [it for it in self.senders if it.fate is not Fate.NEVER_COUNTS]
        if any(it.fate is Fate.COUNTS for it in self.acknowledged):
            return True
        if self.is_read_committed:
            return bool(possible)
        return self.is_read and any(it.transaction is None for it in possible)

    def polls_of(self, isolation: Isolation) -> Iterator[Polled]:
        return (it for it in self.polls if it.isolation is isolation)


class Evidence:
    """All sends and all places of one history."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.sent: list[Sent] = []
        self.transactions: dict[tuple[str, int], KnownTransaction] = {}
        self.found: dict[Place, dict[str, Found]] = defaultdict(dict)
        self.by_value: dict[tuple[str, str], list[Sent]] = defaultdict(list)
        self._sends: dict[tuple[str, int], Sent] = {}
        for event in events:
            try:
                self._take(event)
            except KeyError:
                raise MalformedHistoryError(f"nothing was begun that could end: {event}") from None
        self._place_acknowledged()
        self._find_senders()
        self.contested = {place for place, found in self.found.items() if len(found) > 1}
        self.read_values = {(it.place.topic, it.value) for it in self.at_places() if it.is_read}
        self.evidently_committed = set(self._shown_transactions())

    def at_places(self) -> Iterator[Found]:
        """What lies at each place, without those that nobody can tell."""
        for place, found in self.found.items():
            if place not in self.contested:
                yield from found.values()

    def at(self, sent: Sent) -> Found | None:
        """What became of an acknowledged record; None where its place is not told or contested."""
        if sent.place is None or sent.place in self.contested:
            return None
        return self.found[sent.place][sent.asked.value]

    def _shown_transactions(self) -> Iterator["KnownTransaction"]:
        """Those of which a record was read, if they are committed or the reader waits for that."""
        for found in self.at_places():
            senders = {it.transaction for it in found.senders} if found.is_read else set()
            told = senders.pop() if len(senders) == 1 else None
            if told is None or told.fate is Fate.NEVER_COUNTS:
                continue
            if told.fate is Fate.COUNTS or found.is_read_committed:
                yield told

    def _take(self, event: Event) -> None:
        match event:
            case SendAsked():
                self._take_send(event)
            case SendEnded():
                self._sends[event.client, event.send].ended = event
            case TransactionBegun():
                self.transactions[event.client, event.transaction] = KnownTransaction(begun=event)
            case TransactionEnding(ending=Ending.COMMIT):
                told = self.transactions[event.client, event.transaction]
                told.commit_asked = told.commit_asked or event
            case TransactionEnded():
                self.transactions[event.client, event.transaction].ended = event
            case Polled():
                for record in event.records:
                    self._at(record.place, record.value).polls.append(event)
            case _:
                pass

    def _take_send(self, event: SendAsked) -> None:
        transaction = None
        if event.transaction is not None:
            transaction = self.transactions[event.client, event.transaction]
        sent = Sent(asked=event, transaction=transaction)
        if transaction is not None:
            transaction.sends.append(sent)
        self.sent.append(sent)
        self._sends[event.client, event.send] = sent
        self.by_value[event.topic, event.value].append(sent)

    def _place_acknowledged(self) -> None:
        for sent in self.sent:
            if sent.outcome is Outcome.OK and sent.place is not None:
                self._at(sent.place, sent.asked.value).acknowledged.append(sent)

    def _find_senders(self) -> None:
        for by_value in self.found.values():
            for found in by_value.values():
                found.senders = found.acknowledged or self._possible_senders(found)

    def _possible_senders(self, found: Found) -> list[Sent]:
        of_this_value = self.by_value.get((found.place.topic, found.value), [])
        untold = [it for it in of_this_value if it.may_be_there(found.place.partition)]
        return untold or of_this_value

    def _at(self, place: Place, value: str) -> Found:
        by_value = self.found[place]
        if value not in by_value:
            by_value[value] = Found(place=place, value=value)
        return by_value[value]
