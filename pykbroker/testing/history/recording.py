"""Histories are recorded beside any client: say what you are about to do, then what came of it.

A client here is one run of one producer, one consumer, or a pair of them; one that is started again
is another client and has another name. What is about to be done is recorded before it is done, so
the history of a process that was killed is true as far as it goes.
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
    Move,
    Moved,
    OffsetsCommitAsked,
    OffsetsCommitEnded,
    Outcome,
    Polled,
    Position,
    Record,
    SendAsked,
    SendEnded,
    TransactionBegun,
    TransactionEnded,
    TransactionEnding,
)
from pykbroker.testing.history.json_lines import line_of, read_lines

Value = str | bytes | None


class History:
    """Events in the order in which they were recorded; many threads may record at once."""

    def __init__(self, path: Path | None = None) -> None:
        """With a path, each event is also appended there at once, as one line of JSON."""
        self.events: list[Event] = []
        self._file = path.open("ab", buffering=0) if path is not None else None
        self._names: set[str] = set()

    @classmethod
    def load(cls, *paths: Path) -> Self:
        """One history of what several processes have written, ordered by time.

        Half a line at the end is what a killed process leaves behind, and does not count.
        """
        history = cls()
        for path in paths:
            history.events += read_lines(path)
        history.events.sort(key=lambda it: it.at_ns)  # stable: each file keeps its own order
        return history

    def save(self, path: Path) -> None:
        path.write_bytes(b"".join(map(line_of, self.events)))

    def client(self, name: str, *, isolation: Isolation = Isolation.READ_COMMITTED) -> "Client":
        """A new client; the isolation matters where it reads."""
        if name in self._names:
            raise ValueError(f"there is a client {name!r} already; one that restarts is another")
        self._names.add(name)
        return Client(name, isolation, self.add)

    def add(self, event: Event) -> None:
        self.events.append(event)
        if self._file is not None:
            self._file.write(line_of(event))

    def close(self) -> None:
        """Close the file, if there is one."""
        if self._file is not None:
            self._file.close()


class Client:
    """Records what one client does and is told."""

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
        """Call this before the send; the record belongs to the transaction that was begun last.

        The value must be another for every send, or the checker cannot tell the records apart.
        """
        send = next(self._sends)
        self._add(
            SendAsked(
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
        """What is sent from here on belongs to a transaction, until it is about to end."""
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
        """What one poll brought, in its order; nothing is recorded where it brought nothing."""
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
        """The client goes on with these partitions: topic, partition, and position if known."""
        self._moved(Move.ASSIGNED, positions)

    def revoked(self, *partitions: tuple[str, int]) -> None:
        self._moved(Move.REVOKED, partitions)

    def sought(self, topic: str, partition: int, offset: int | None = None) -> None:
        """The client goes on elsewhere in a partition of its own; None stands for anywhere."""
        self._moved(Move.SOUGHT, [(topic, partition, offset)])

    def _moved(
        self, move: Move, places: Iterable[tuple[str, int] | tuple[str, int, int | None]]
    ) -> None:
        positions = tuple(Position(it[0], it[1], it[2] if len(it) == 3 else None) for it in places)
        self._add(
            Moved(client=self.name, at_ns=time.monotonic_ns(), move=move, positions=positions)
        )

    def committing_offsets(
        self, group: str, offsets: Mapping[tuple[str, int], int]
    ) -> "OffsetsCommitting":
        """Call this before a group's offsets are committed, in the open transaction or outside."""
        commit = next(self._commits)
        self._add(
            OffsetsCommitAsked(
                client=self.name,
                at_ns=time.monotonic_ns(),
                commit=commit,
                group=group,
                positions=tuple(Position(*place, offset) for place, offset in offsets.items()),
                transaction=self._open,
            )
        )
        return OffsetsCommitting(self.name, commit, self._add)


class Sending:
    """A record under way; if nothing more is recorded, nobody knows what became of it."""

    def __init__(self, client: str, send: int, add: Callable[[Event], None]) -> None:
        self.client = client
        self.send = send
        self._add = add

    def sent(self, *, partition: int, offset: int | None) -> None:
        """The broker has acknowledged the record."""
        self._ended(Outcome.OK, partition=partition, offset=offset)

    def refused(self, reason: object) -> None:
        """The record was certainly not written. A timeout is not certain."""
        self._ended(Outcome.FAILED, reason=reason)

    def unanswered(self, reason: object) -> None:
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
    """A transaction under way.

    One that never asks to be committed counts as aborted, for nothing else can become of it. One
    that asks and gets no answer may be either.
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
        """The end was asked for, and what came of it nobody knows."""
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
    """A group's progress on its way to its coordinator."""

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
    """Bytes become text without loss; a null becomes the empty text."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return value or ""
