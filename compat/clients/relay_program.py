"""A program that copies records from one topic to another with a delivery guarantee.

It writes a history of its operations. After an error that it cannot handle it exits, like a program
under a supervisor, and its parent starts another one: with a new name, because a history belongs to
one client, and the same transactional id.
"""

from __future__ import annotations

import faulthandler
import json
import signal
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Protocol

from compat.clients.member_program import emit, run_program, stopping
from pykbroker.testing.history import Client, History, Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pykbroker.testing.history import Sending

POLL_SECONDS = 0.1
RECORDS_PER_POLL_MAX = 20
TIMEOUT_SECONDS = 5.0
HANGING_SECONDS = 8.0
SEPARATOR = "@"
SESSION_TIMEOUT_MS = 1_500

Positions = dict[tuple[str, int], int]
Results = list[int | Exception]
"""Offset or error of each sent record."""


class Guarantee(StrEnum):
    AT_MOST_ONCE = "at most once"
    AT_LEAST_ONCE = "at least once"
    EXACTLY_ONCE = "exactly once"


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayOptions:
    """Options of a relay, JSON on its command line."""

    name: str
    bootstrap: str
    group: str
    source: str
    sink: str
    guarantee: Guarantee
    history: str
    transactional_id: str
    seed: int
    partitions: list[int] | None = None
    """Fixed partitions of the source; None: assigned by the group."""
    abort_share: float = 0.1
    session_timeout_ms: int = SESSION_TIMEOUT_MS
    transaction_timeout_ms: int = 10_000

    @property
    def is_transactional(self) -> bool:
        return self.guarantee is Guarantee.EXACTLY_ONCE


class Library(Protocol):
    """Adapter of a client library; all calls block."""

    @property
    def error(self) -> type[Exception]:
        """Base class of the library's exceptions."""
        ...

    def open(self, client: Client) -> None:
        """Initializes transactions and subscribes; reports assignments to `client`."""

    def poll(self) -> list[Record]: ...

    def seek(self, positions: Positions) -> Positions:
        """Seeks to these positions; returns those of partitions that are still assigned."""
        ...

    def begin(self) -> None: ...

    def send(self, records: Sequence[tuple[int, str]]) -> Results:
        """Sends records to partitions of the sink."""
        ...

    def send_offsets(self, positions: Positions) -> None:
        """Adds the group's offsets to the transaction."""

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def commit_offsets(self, positions: Positions) -> None:
        """Commits offsets without a transaction."""

    def close(self) -> None: ...


def origin_of(value: str) -> str:
    """Returns the source value of a value in the sink."""
    return value.rpartition(SEPARATOR)[0]


def main(library: Callable[[RelayOptions], Library]) -> None:
    """Runs a relay until it is stopped."""

    def run(found: dict[str, object]) -> None:
        options = RelayOptions(**{**found, "guarantee": Guarantee(str(found["guarantee"]))})  # type: ignore[arg-type] # JSON written by RelayProcesses
        relay = Relay(options, library(options))
        relay.run()

    faulthandler.register(signal.SIGUSR1, all_threads=False)  # prints the stack of a hanging relay
    run_program(run)  # type: ignore[arg-type] # the mapping is a dict


class RelayStoppedError(Exception):
    """The relay cannot continue."""


class Relay:
    """The main loop, with one method per guarantee."""

    def __init__(self, options: RelayOptions, library: Library) -> None:
        self.options = options
        self.library = library
        self.chance = Random(options.seed)  # noqa: S311 (chance, no secret)
        self.history = History(Path(options.history))
        self.client = self.history.client(options.name)
        self.sends = 0

    def run(self) -> None:
        relay = {
            Guarantee.AT_MOST_ONCE: self.at_most_once,
            Guarantee.AT_LEAST_ONCE: self.at_least_once,
            Guarantee.EXACTLY_ONCE: self.exactly_once,
        }[self.options.guarantee]
        try:
            self.library.open(self.client)
            emit("started")
            while not stopping.is_set():
                with end_if_this_hangs():
                    found = self.library.poll()
                self.client.polled(found)
                if found:
                    with end_if_this_hangs():
                        relay(found)
            self.library.close()
        except (self.library.error, RelayStoppedError) as error:
            emit("stopped", reason=repr(error))
            sys.exit(1)

    def at_most_once(self, found: list[Record]) -> None:
        """Commits offsets first; records can be lost afterwards."""
        self.commit_offsets(found)
        self.send(found)

    def at_least_once(self, found: list[Record]) -> None:
        """Commits offsets last; after a crash the successor sends the records again."""
        results = self.send(found)
        for result in results:
            if isinstance(result, Exception):
                raise RelayStoppedError(result)
        self.commit_offsets(found)

    def exactly_once(self, found: list[Record]) -> None:
        """Sends records and commits offsets in one transaction."""
        transaction = self.client.begun()
        is_ending = False
        try:
            self.library.begin()
            results = self.send(found)
            refused = [it for it in results if isinstance(it, Exception)]
            if not refused and self.chance.random() >= self.options.abort_share:
                self.client.committing_offsets(self.options.group, positions_after(found))
                self.library.send_offsets(positions_after(found))
                transaction.committing()
                is_ending = True
                self.library.commit()
                transaction.committed()
                emit("committed", records=len(found))
                return
        except self.library.error as error:
            if is_ending:
                transaction.unanswered(repr(error))
                raise
            emit("failed", reason=repr(error))
        transaction.aborting()
        self.library.abort()
        transaction.aborted()
        emit("aborted", records=len(found))
        self.go_back(found)

    def go_back(self, found: list[Record]) -> None:
        first: Positions = {}
        for record in found:
            first.setdefault((record.topic, record.partition), record.offset)
        for (topic, partition), offset in self.library.seek(first).items():
            self.client.sought(topic, partition, offset)

    def send(self, found: list[Record]) -> Results:
        """Sends each record to the same partition of the sink, with a unique suffix."""
        marked = [(it.partition, self.marked(it.value)) for it in found]
        under_way: list[Sending] = [
            self.client.sending(self.options.sink, value, partition=partition)
            for partition, value in marked
        ]
        results = self.library.send(marked)
        for sending, (partition, _), result in zip(under_way, marked, results, strict=True):
            if isinstance(result, Exception):
                sending.unanswered(repr(result))
            else:
                sending.sent(partition=partition, offset=result if result >= 0 else None)
        return results

    def marked(self, value: str) -> str:
        self.sends += 1
        return f"{value}{SEPARATOR}{self.options.name}/{self.sends}"

    def commit_offsets(self, found: list[Record]) -> None:
        positions = positions_after(found)
        committing = self.client.committing_offsets(self.options.group, positions)
        try:
            self.library.commit_offsets(positions)
        except self.library.error as error:
            committing.unanswered(repr(error))
            raise
        committing.committed()
        emit("committed", records=len(found))


@contextmanager
def end_if_this_hangs() -> Iterator[None]:
    """Exits if a call does not return; some ignore their timeout (librdkafka issue 5456)."""
    faulthandler.dump_traceback_later(HANGING_SECONDS, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


def positions_after(found: list[Record]) -> Positions:
    return {(it.topic, it.partition): it.offset + 1 for it in found}


def command_of(library: str, options: dict[str, object]) -> list[str]:
    """Returns the command line of a relay in Python."""
    program = f"compat.clients.{library.replace('-', '_')}_relay"
    return [sys.executable, "-m", program, json.dumps(options)]
