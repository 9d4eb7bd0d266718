"""Records a history beside any Kafka client: each operation before it starts, then its result.

A client is one run of a producer, a consumer, or both. A restarted client needs a new name. Because
operations are recorded before they start, the history of a killed process is correct up to its end.
"""

import itertools
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Self

from pykbroker.testing.history.events import (
    Ended,
    Ending,
    Event,
    Isolation,
    Moved,
    MoveReason,
    OffsetsCommitEnded,
    OffsetsCommitStarted,
    Outcome,
    Polled,
    Position,
    Record,
    SendEnded,
    SendStarted,
    TransactionBegun,
    TransactionEnded,
    TransactionEnding,
)
from pykbroker.testing.history.json_lines import line_of, read_lines

Value = str | bytes | None


class History:
    """Events in the order in which they were recorded. Thread-safe."""

    def __init__(self, path: Path | None = None) -> None:
        """With a path, each event is also appended to this file at once, as a line of JSON."""
        self.events: list[Event] = []
        self._file = path.open("ab", buffering=0) if path is not None else None
        self._names: set[str] = set()

    @classmethod
    def load(cls, *paths: Path) -> Self:
        """Merges the files of several processes by time.

        Ignores an incomplete last line, which a killed process can leave behind.
        """
        history = cls()
        for path in paths:
            history.events += read_lines(path)
        history.events.sort(key=lambda it: it.at_ns)  # stable: each file keeps its own order
        return history

    def save(self, path: Path) -> None:
        path.write_bytes(b"".join(map(line_of, self.events)))

    def client(self, name: str, *, isolation: Isolation = Isolation.READ_COMMITTED) -> "Client":
        """Returns a new client. 'isolation' is the isolation level of its reads."""
        if name in self._names:
            raise ValueError(f"client {name!r} exists already; a restarted client needs a new name")
        self._names.add(name)
        return Client(name, isolation, self.add)

    def add(self, event: Event) -> None:
        self.events.append(event)
        if self._file is not None:
            self._file.write(line_of(event))

    def close(self) -> None:
        """Closes the file of the history, if it has one."""
        if self._file is not None:
            self._file.close()


class Client:
    """Records the operations of one client and their results."""

    def __init__(self, name: str, isolation: Isolation, add: Callable[[Event], None]) -> None:
        self.name = name
        self.isolation = isolation
        self._add = add
        self._sends = itertools.count()
        self._transactions = itertools.count()
        self._commits = itertools.count()
        self._open: int | None = None

    # --- as a producer

    def sending(self, topic: str, value: Value, *, partition: int | None = None) -> "Sending":
        """Call this before the send. The record belongs to the open transaction, if there is one.

        Every send needs a unique value: the checker identifies records by their values.
        """
        send = next(self._sends)
        self._add(
            SendStarted(
                client=self.name,
                at_ns=time.monotonic_ns(),
                send=send,
                topic=topic,
                partition=partition,
                value=text_of(value),
                transaction=self._open,
            )
        )
        return Sending(self.name, send, self._add)

    def begun(self) -> "Transaction":
        """Begins a transaction. Later sends belong to it until it ends."""
        self._open = next(self._transactions)
        self._add(
            TransactionBegun(client=self.name, at_ns=time.monotonic_ns(), transaction=self._open)
        )
        return Transaction(self.name, self._open, self._add, self._leave_transaction)

    def _leave_transaction(self, transaction: int) -> None:
        if self._open == transaction:
            self._open = None

    # --- as a consumer

    def polled(self, records: Iterable[Record]) -> None:
        """Records the result of a poll. An empty poll is not recorded."""
        found = tuple(records)
        if found:
            self._add(
                Polled(
                    client=self.name,
                    at_ns=time.monotonic_ns(),
                    isolation=self.isolation,
                    records=found,
                )
            )

    def assigned(self, *positions: tuple[str, int] | tuple[str, int, int | None]) -> None:
        """Records an assignment: topic, partition and, if known, the start offset."""
        self._moved(MoveReason.ASSIGNED, positions)

    def revoked(self, *partitions: tuple[str, int]) -> None:
        self._moved(MoveReason.REVOKED, partitions)

    def sought(self, topic: str, partition: int, offset: int | None = None) -> None:
        """Records a seek; the offset is None if unknown."""
        self._moved(MoveReason.SOUGHT, [(topic, partition, offset)])

    def _moved(
        self, move: MoveReason, given: Iterable[tuple[str, int] | tuple[str, int, int | None]]
    ) -> None:
        positions = tuple(Position(it[0], it[1], it[2] if len(it) == 3 else None) for it in given)
        self._add(
            Moved(client=self.name, at_ns=time.monotonic_ns(), move=move, positions=positions)
        )

    def committing_offsets(
        self, group: str, offsets: Mapping[tuple[str, int], int]
    ) -> "OffsetsCommitting":
        """Call this before offsets are committed, in the open transaction or outside."""
        commit = next(self._commits)
        self._add(
            OffsetsCommitStarted(
                client=self.name,
                at_ns=time.monotonic_ns(),
                commit=commit,
                group=group,
                positions=tuple(
                    Position(*partition, offset) for partition, offset in offsets.items()
                ),
                transaction=self._open,
            )
        )
        return OffsetsCommitting(self.name, commit, self._add)


class Sending:
    """A started send. Without a recorded result, the result is unknown."""

    def __init__(self, client: str, send: int, add: Callable[[Event], None]) -> None:
        self.client = client
        self.send = send
        self._add = add

    def sent(self, *, partition: int, offset: int | None) -> None:
        """The broker has acknowledged the record."""
        self._ended(Outcome.OK, partition=partition, offset=offset)

    def refused(self, reason: object) -> None:
        """The record was certainly not written. For a timeout use `unanswered`."""
        self._ended(Outcome.FAILED, reason=reason)

    def unanswered(self, reason: object) -> None:
        """The result is unknown."""
        self._ended(Outcome.UNKNOWN, reason=reason)

    def _ended(
        self,
        outcome: Outcome,
        *,
        partition: int | None = None,
        offset: int | None = None,
        reason: object = None,
    ) -> None:
        self._add(
            SendEnded(
                client=self.client,
                at_ns=time.monotonic_ns(),
                send=self.send,
                outcome=outcome,
                partition=partition,
                offset=offset,
                reason=None if reason is None else str(reason),
            )
        )


class Transaction:
    """An open transaction.

    Without a requested commit it counts as aborted. With a requested commit and no result it may be
    committed or aborted.
    """

    def __init__(
        self,
        client: str,
        number: int,
        add: Callable[[Event], None],
        leave: Callable[[int], None],
    ) -> None:
        self.client = client
        self.number = number
        self._add = add
        self._leave = leave

    def committing(self) -> None:
        """Call this before the commit."""
        self._ending(Ending.COMMIT)

    def aborting(self) -> None:
        """Call this before the abort."""
        self._ending(Ending.ABORT)

    def committed(self) -> None:
        self._ended(Ended.COMMITTED)

    def aborted(self, reason: object = None) -> None:
        """The transaction is certainly aborted: the abort succeeded."""
        self._ended(Ended.ABORTED, reason)

    def unanswered(self, reason: object) -> None:
        """The result of the requested commit or abort is unknown."""
        self._ended(Ended.UNKNOWN, reason)

    def _ending(self, ending: Ending) -> None:
        self._leave(self.number)
        self._add(
            TransactionEnding(
                client=self.client,
                at_ns=time.monotonic_ns(),
                transaction=self.number,
                ending=ending,
            )
        )

    def _ended(self, ended: Ended, reason: object = None) -> None:
        self._add(
            TransactionEnded(
                client=self.client,
                at_ns=time.monotonic_ns(),
                transaction=self.number,
                ended=ended,
                reason=None if reason is None else str(reason),
            )
        )


class OffsetsCommitting:
    """A started offset commit."""

    def __init__(self, client: str, commit: int, add: Callable[[Event], None]) -> None:
        self.client = client
        self.commit = commit
        self._add = add

    def committed(self) -> None:
        self._ended(Outcome.OK)

    def refused(self, reason: object) -> None:
        self._ended(Outcome.FAILED, reason)

    def unanswered(self, reason: object) -> None:
        self._ended(Outcome.UNKNOWN, reason)

    def _ended(self, outcome: Outcome, reason: object = None) -> None:
        self._add(
            OffsetsCommitEnded(
                client=self.client,
                at_ns=time.monotonic_ns(),
                commit=self.commit,
                outcome=outcome,
                reason=None if reason is None else str(reason),
            )
        )


def text_of(value: Value) -> str:
    """Decodes bytes without loss; null becomes the empty string."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return value or ""
