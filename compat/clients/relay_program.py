"""A program that takes records from one topic to another, and keeps a promise about how often.

It keeps a history of what it does, is told and reads. When it does not know how to go on it ends,
as a program under a supervisor does, and whoever started it starts another: with another name, for
its history is another client's, but with the same transactional id.
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

from compat.clients.member_program import run_program, stopping, tell
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
"""For each record sent its offset, or why it has none."""


class Guarantee(StrEnum):
    AT_MOST_ONCE = "at most once"
    AT_LEAST_ONCE = "at least once"
    EXACTLY_ONCE = "exactly once"


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayOptions:
    """What a relay is told on its command line, as JSON."""

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
    """Those of the source that are this relay's own; None where its group shares them out."""
    abort_share: float = 0.1
    session_timeout_ms: int = SESSION_TIMEOUT_MS
    transaction_timeout_ms: int = 10_000

    @property
    def is_transactional(self) -> bool:
        return self.guarantee is Guarantee.EXACTLY_ONCE


class Library(Protocol):
    """What a relay needs of a client library; all calls wait for their answers."""

    @property
    def error(self) -> type[Exception]:
        """What the library raises when something did not work."""
        ...

    def open(self, client: Client) -> None:
        """Take over the transactional id; tell the client which partitions come and go."""

    def poll(self) -> list[Record]: ...

    def seek(self, positions: Positions) -> Positions:
        """Go back; partitions that are somebody else's by now are left out of the answer."""
        ...

    def begin(self) -> None: ...

    def send(self, records: Sequence[tuple[int, str]]) -> Results:
        """Send to partitions of the sink."""
        ...

    def send_offsets(self, positions: Positions) -> None:
        """Make the group's progress a part of the transaction."""

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def commit_offsets(self, positions: Positions) -> None:
        """Without a transaction."""

    def close(self) -> None: ...


def origin_of(value: str) -> str:
    """Of a value in the sink, the one in the source."""
    return value.rpartition(SEPARATOR)[0]


def main(library: Callable[[RelayOptions], Library]) -> None:
    """Relay records until told to stop."""

    def run(found: dict[str, object]) -> None:
        options = RelayOptions(**{**found, "guarantee": Guarantee(str(found["guarantee"]))})  # type: ignore[arg-type] # JSON that our own side wrote
        relay = Relay(options, library(options))
        relay.run()

    faulthandler.register(signal.SIGUSR1, all_threads=False)  # says where it hangs
    run_program(run)  # type: ignore[arg-type] # a mapping is a dict here


class RelayStoppedError(Exception):
    """Nobody knows how to go on from here."""


class Relay:
    """The loop, one guarantee a method."""

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
            tell("started")
            while not stopping.is_set():
                with end_if_this_hangs():
                    found = self.library.poll()
                self.client.polled(found)
                if found:
                    with end_if_this_hangs():
                        relay(found)
            self.library.close()
        except (self.library.error, RelayStoppedError) as error:
            tell("stopped", reason=repr(error))
            sys.exit(1)

    def at_most_once(self, found: list[Record]) -> None:
        """Progress first: what happens to the records afterwards happens to them."""
        self.commit_offsets(found)
        self.send(found)

    def at_least_once(self, found: list[Record]) -> None:
        """Progress last: a relay that dies before has its successor do it again."""
        results = self.send(found)
        for result in results:
            if isinstance(result, Exception):
                raise RelayStoppedError(result)
        self.commit_offsets(found)

    def exactly_once(self, found: list[Record]) -> None:
        """Both at once, or neither."""
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
                tell("committed", records=len(found))
                return
        except self.library.error as error:
            if is_ending:
                transaction.unanswered(repr(error))
                raise
            tell("failed", reason=repr(error))
        transaction.aborting()
        self.library.abort()
        transaction.aborted()
        tell("aborted", records=len(found))
        self.go_back(found)

    def go_back(self, found: list[Record]) -> None:
        first: Positions = {}
        for record in found:
            first.setdefault((record.topic, record.partition), record.offset)
        for (topic, partition), offset in self.library.seek(first).items():
            self.client.sought(topic, partition, offset)

    def send(self, found: list[Record]) -> Results:
        """The same partition of the sink, the same value with a mark, so that no two are alike."""
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
        tell("committed", records=len(found))


@contextmanager
def end_if_this_hangs() -> Iterator[None]:
    """Not every call keeps to its timeout (librdkafka issue 5456)."""
    faulthandler.dump_traceback_later(HANGING_SECONDS, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


def positions_after(found: list[Record]) -> Positions:
    return {(it.topic, it.partition): it.offset + 1 for it in found}


def command_of(library: str, options: dict[str, object]) -> list[str]:
    """How a relay in Python is started."""
    program = f"compat.clients.{library.replace('-', '_')}_relay"
    return [sys.executable, "-m", program, json.dumps(options)]
