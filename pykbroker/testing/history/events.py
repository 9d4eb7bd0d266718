"""The events of a history: what a client was about to do, and what it was told."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, TypeAlias


class Isolation(StrEnum):
    """Kafka's `isolation.level`: whether a reader waits for the end of a transaction."""

    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"


class Outcome(StrEnum):
    """What a client knows of something it asked for. A lost answer is `UNKNOWN`, never `FAILED`."""

    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "unknown"


class Ending(StrEnum):
    """What a client asks for at the end of a transaction."""

    COMMIT = "commit"
    ABORT = "abort"


class Ended(StrEnum):
    """What a client knows of a transaction that it has asked to end."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


class Move(StrEnum):
    """Why a reader is somewhere else than after the last record it read."""

    ASSIGNED = "assigned"
    REVOKED = "revoked"
    SOUGHT = "sought"


class Place(NamedTuple):
    """Where a record lies."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} at offset {self.offset}"


class Record(NamedTuple):
    """A record as a reader was given it."""

    topic: str
    partition: int
    offset: int
    value: str

    @property
    def place(self) -> Place:
        return Place(self.topic, self.partition, self.offset)


class Position(NamedTuple):
    """The offset that comes next in a partition; None where nobody knows."""

    topic: str
    partition: int
    offset: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened:
    """Something happened to a client, at a time of the machine's monotonic clock."""

    client: str
    at_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SendAsked(Happened):
    """A record is about to be sent; the partition is None where the client will choose it."""

    send: int
    topic: str
    partition: int | None
    value: str
    transaction: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SendEnded(Happened):
    """A client was told what came of a send. Without this event nothing is known."""

    send: int
    outcome: Outcome
    partition: int | None = None
    offset: int | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionBegun(Happened):
    transaction: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionEnding(Happened):
    """A client is about to ask that its transaction be committed or aborted."""

    transaction: int
    ending: Ending


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionEnded(Happened):
    """A client was told what came of its transaction."""

    transaction: int
    ended: Ended
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Polled(Happened):
    """One poll brought these records, in this order."""

    isolation: Isolation
    records: tuple[Record, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved(Happened):
    """A reader goes on somewhere else: a rebalance, an assignment of its own or a seek."""

    move: Move
    positions: tuple[Position, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsCommitAsked(Happened):
    """A group's progress is about to be written down, in a transaction or outside."""

    commit: int
    group: str
    positions: tuple[Position, ...]
    transaction: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsCommitEnded(Happened):
    commit: int
    outcome: Outcome
    reason: str | None = None


Event: TypeAlias = (
    SendAsked
    | SendEnded
    | TransactionBegun
    | TransactionEnding
    | TransactionEnded
    | Polled
    | Moved
    | OffsetsCommitAsked
    | OffsetsCommitEnded
)
