"""The events of a history: what a client starts, and the result that it gets."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, TypeAlias


class Isolation(StrEnum):
    """Kafka's `isolation.level`."""

    READ_COMMITTED = "read_committed"
    READ_UNCOMMITTED = "read_uncommitted"


class Outcome(StrEnum):
    """The result that a client knows. A request without a response is `UNKNOWN`, not `FAILED`."""

    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "unknown"


class Ending(StrEnum):
    """The requested end of a transaction."""

    COMMIT = "commit"
    ABORT = "abort"


class Ended(StrEnum):
    """The end of a transaction that the client knows."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


class MoveReason(StrEnum):
    """Why the position of a reader changed other than by reading."""

    ASSIGNED = "assigned"
    REVOKED = "revoked"
    SOUGHT = "sought"


class RecordId(NamedTuple):
    """Topic, partition and offset of a record."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} at offset {self.offset}"


Place = RecordId
"""Former name, kept for existing imports."""


class Record(NamedTuple):
    """A record that a reader received."""

    topic: str
    partition: int
    offset: int
    value: str

    @property
    def record_id(self) -> RecordId:
        return RecordId(self.topic, self.partition, self.offset)

    @property
    def place(self) -> RecordId:
        """Former name of `record_id`."""
        return self.record_id


class Position(NamedTuple):
    """The next offset to read in a partition; None if unknown."""

    topic: str
    partition: int
    offset: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientEvent:
    """An event of a client at a time of the machine's monotonic clock."""

    client: str
    at_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SendStarted(ClientEvent):
    """A record will be sent next. The partition is None if the client selects it."""

    send: int
    topic: str
    partition: int | None
    value: str
    transaction: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SendEnded(ClientEvent):
    """The result of a send. Without this event the result is unknown."""

    send: int
    outcome: Outcome
    partition: int | None = None
    offset: int | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionBegun(ClientEvent):
    transaction: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionEnding(ClientEvent):
    """A client will request the commit or abort of its transaction next."""

    transaction: int
    ending: Ending


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionEnded(ClientEvent):
    """The result of a requested commit or abort."""

    transaction: int
    ended: Ended
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Polled(ClientEvent):
    """One poll returned these records, in this order."""

    isolation: Isolation
    records: tuple[Record, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved(ClientEvent):
    """The position of a reader changed: a rebalance, an assignment or a seek."""

    move: MoveReason
    positions: tuple[Position, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsCommitStarted(ClientEvent):
    """A client will commit offsets of a group next, in a transaction or outside."""

    commit: int
    group: str
    positions: tuple[Position, ...]
    transaction: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsCommitEnded(ClientEvent):
    commit: int
    outcome: Outcome
    reason: str | None = None


Event: TypeAlias = (
    SendStarted
    | SendEnded
    | TransactionBegun
    | TransactionEnding
    | TransactionEnded
    | Polled
    | Moved
    | OffsetsCommitStarted
    | OffsetsCommitEnded
)
