"""Relays of one library and one group as processes: tended, killed, frozen and followed up."""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from compat.apache.installation import install
from compat.apache.tools import SHORT_LIVED_JVM, java_command
from compat.clients.member_processes import JAVA, Event, Process
from compat.clients.relay_program import (
    RECORDS_PER_POLL_MAX,
    SESSION_TIMEOUT_MS,
    Guarantee,
    command_of,
)

if TYPE_CHECKING:
    from random import Random
    from types import TracebackType

JAVA_PROGRAM = Path(__file__).with_name("Relay.java")
MANUAL_ASSIGNMENT = {("aiokafka", Guarantee.EXACTLY_ONCE)}
"""What cannot be had of a group that shares partitions out."""
STALLING_LIBRARIES = {"kafka-python"}
"""Now and then its consumers poll and poll after a broker has come back, and are given nothing."""
STUCK_SECONDS = 15.0
STOP_TIMEOUT_SECONDS = 60.0
_POLL_SECONDS = 0.05


@dataclass(eq=False, slots=True)
class RelayProcess:
    """A relay's process, and what it is called in its history."""

    name: str
    process: Process

    @property
    def is_over(self) -> bool:
        return self.process.process.poll() is not None

    def signal(self, number: signal.Signals) -> None:
        self.process.process.send_signal(number)


class RelayProcesses:
    """Some relays that are started again when they end; a context manager that leaves none.

    A frozen relay is replaced while it is frozen; thawed it is a zombie, for it still believes
    that all is its own.
    """

    def __init__(
        self,
        bootstrap: str,
        directory: Path,
        *,
        library: str,
        guarantee: Guarantee,
        source: str,
        sink: str,
        partitions: int,
        relays: int,
        chance: Random,
        abort_share: float = 0.1,
    ) -> None:
        self.group = f"{library} {guarantee}"
        self.histories: list[Path] = []
        self.library = library
        self.guarantee = guarantee
        self.chance = chance
        self._directory = directory
        self._options: dict[str, object] = {
            "bootstrap": bootstrap,
            "group": self.group,
            "source": source,
            "sink": sink,
            "guarantee": str(guarantee),
            "abort_share": abort_share,
        }
        self._partitions = partitions
        self._started = 0
        self.all: list[RelayProcess] = []
        self.zombies: list[RelayProcess] = []
        directory.mkdir(parents=True, exist_ok=True)
        self.slots: list[RelayProcess] = []
        self._relays = relays

    def __enter__(self) -> Self:
        self.slots = [self._start(it) for it in range(self._relays)]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for relay in self.all:
            relay.process.close()

    # --- what happens to relays

    def restart_ended(self) -> None:
        """Start those again that did not know how to go on, and all if nobody does anything."""
        if self.library in STALLING_LIBRARIES and self._quiet_seconds() > STUCK_SECONDS:
            for relay in self.slots:
                relay.process.close()
        for slot, relay in enumerate(self.slots):
            if relay.is_over:
                self.slots[slot] = self._start(slot)

    def _quiet_seconds(self) -> float:
        now_ns = time.monotonic_ns()
        return (now_ns - max((it["at_ns"] for it in self.events()), default=now_ns)) / 1e9

    def kill(self, slot: int) -> None:
        self.slots[slot].process.close()
        self.slots[slot] = self._start(slot)

    def replace_frozen(self, slot: int) -> None:
        """Its successor has the same transactional id, and fences it."""
        self.suspend(slot)
        self.slots[slot] = self._start(slot)

    def suspend(self, slot: int) -> None:
        """It knows nothing of what happens from now on until it is thawed; nobody replaces it."""
        self.slots[slot].signal(signal.SIGSTOP)
        self.zombies.append(self.slots[slot])

    def resume(self) -> None:
        """All frozen relays go on where they were."""
        for relay in self.zombies:
            relay.signal(signal.SIGCONT)

    def kill_zombies(self) -> None:
        """Zombies that nobody has fenced do not walk for ever."""
        for relay in self.zombies:
            relay.process.close()
        self.zombies.clear()

    @property
    def transactional_ids(self) -> list[str]:
        """One for each slot, whoever is in it."""
        return [f"{self.library} relay {slot}" for slot in range(self._relays)]

    def count(self, event: str) -> int:
        """How often any relay has told of this."""
        return sum(it["event"] == event for it in self.events())

    def events(self) -> list[Event]:
        for relay in self.all:
            relay.process.read()
        return [event for relay in self.all for event in relay.process.events]

    def is_ready(self) -> bool:
        """All present relays have begun."""
        self.events()
        return all(
            any(event["event"] == "started" for event in relay.process.events)
            for relay in self.slots
        )

    def stop(self) -> None:
        """End all, in good order where they still know how to go on."""
        self.resume()
        for relay in self.all:
            if not relay.is_over:
                self._ask_to_stop(relay)
        deadline = time.monotonic() + STOP_TIMEOUT_SECONDS
        while not all(it.is_over for it in self.all):
            assert time.monotonic() < deadline, f"some relays do not end\n{self.story()}"
            time.sleep(_POLL_SECONDS)

    def story(self) -> str:
        """The last events of each relay, and where it is, for a test that fails."""
        self.events()
        if self.library != JAVA:
            for relay in self.all:
                relay.signal(signal.SIGUSR1)
            time.sleep(_POLL_SECONDS)
        lines = []
        for relay in self.all:
            lines.append(relay.name + (" has ended" if relay.is_over else ""))
            lines += [f"    {it}" for it in relay.process.events[-4:]]
            lines += [f"    {line}" for line in relay.process.errors().splitlines()[-12:]]
        return "\n".join(lines)

    # --- how they are started

    def _start(self, slot: int) -> RelayProcess:
        self._started += 1
        name = f"{self.library}-{slot}-{self._started}"
        history = self._directory / f"{name}.jsonl"
        self.histories.append(history)
        history.touch()
        options = {
            **self._options,
            "name": name,
            "history": str(history),
            "transactional_id": self.transactional_ids[slot],
            "seed": self.chance.randrange(1 << 32),
        }
        if (self.library, self.guarantee) in MANUAL_ASSIGNMENT:
            options["partitions"] = list(range(slot, self._partitions, self._relays))
        process = Process(self._command(options), self._directory / name)
        relay = RelayProcess(name, process)
        self.all.append(relay)
        return relay

    def _command(self, options: dict[str, object]) -> list[str]:
        if self.library != JAVA:
            return command_of(self.library, options)
        more = {
            "session_timeout_ms": SESSION_TIMEOUT_MS,
            "transaction_timeout_ms": 10_000,
            "records_max": RECORDS_PER_POLL_MAX,
        }
        words = [f"{key}={value}" for key, value in {**options, **more}.items()]
        return java_command(install(), SHORT_LIVED_JVM, str(JAVA_PROGRAM), *words)

    def _ask_to_stop(self, relay: RelayProcess) -> None:
        if self.library == JAVA:
            stdin = relay.process.process.stdin
            assert stdin is not None
            stdin.close()
        else:
            relay.signal(signal.SIGTERM)
