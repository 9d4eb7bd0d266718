"""Runs relays of one library and group as processes: restarts, kills and suspends them."""

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
"""Libraries that cannot be exactly-once with a group's assignment, so partitions are fixed."""
STALLING_LIBRARIES = {"kafka-python"}
"""Their consumers sometimes return no records after a broker restart."""
STUCK_SECONDS = 15.0
STOP_TIMEOUT_SECONDS = 60.0
_POLL_SECONDS = 0.05


@dataclass(eq=False, slots=True)
class RelayProcess:
    """A relay's process, and its name in the history."""

    name: str
    process: Process

    @property
    def is_over(self) -> bool:
        return self.process.process.poll() is not None

    def signal(self, number: signal.Signals) -> None:
        self.process.process.send_signal(number)


class RelayProcesses:
    """Relays that are restarted when they exit. The context manager kills them on exit.

    A suspended relay can be replaced meanwhile; when it resumes it is a zombie, because it still
    acts as the owner of its partitions and transactional id.
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

    # --- start and stop

    def restart_ended(self) -> None:
        """Restarts exited relays, and all relays of a stalling library without recent events."""
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
        """Suspends a relay and starts another one with its transactional id, which fences it."""
        self.suspend(slot)
        self.slots[slot] = self._start(slot)

    def suspend(self, slot: int) -> None:
        """Suspends a relay without a replacement."""
        self.slots[slot].signal(signal.SIGSTOP)
        self.zombies.append(self.slots[slot])

    def resume(self) -> None:
        """Continues all suspended relays."""
        for relay in self.zombies:
            relay.signal(signal.SIGCONT)

    def kill_zombies(self) -> None:
        """Kills zombies, including those that were not fenced."""
        for relay in self.zombies:
            relay.process.close()
        self.zombies.clear()

    @property
    def transactional_ids(self) -> list[str]:
        """Transactional ids, one per slot; successive relays of a slot share it."""
        return [f"{self.library} relay {slot}" for slot in range(self._relays)]

    def count(self, event: str) -> int:
        """Returns the number of events of this type from all relays."""
        return sum(it["event"] == event for it in self.events())

    def events(self) -> list[Event]:
        for relay in self.all:
            relay.process.read()
        return [event for relay in self.all for event in relay.process.events]

    def is_ready(self) -> bool:
        """Returns whether all current relays have started."""
        self.events()
        return all(
            any(event["event"] == "started" for event in relay.process.events)
            for relay in self.slots
        )

    def stop(self) -> None:
        """Stops all relays cleanly and waits until they have exited."""
        self.resume()
        for relay in self.all:
            if not relay.is_over:
                self._ask_to_stop(relay)
        deadline = time.monotonic() + STOP_TIMEOUT_SECONDS
        while not all(it.is_over for it in self.all):
            assert time.monotonic() < deadline, f"relays do not exit\n{self.diagnostics()}"
            time.sleep(_POLL_SECONDS)

    def diagnostics(self) -> str:
        """Returns the last events and the stack of each relay, for failure reports."""
        self.events()
        if self.library != JAVA:
            for relay in self.all:
                relay.signal(signal.SIGUSR1)
            time.sleep(_POLL_SECONDS)
        lines = []
        for relay in self.all:
            lines.append(relay.name + (" has exited" if relay.is_over else ""))
            lines += [f"    {it}" for it in relay.process.events[-4:]]
            lines += [f"    {line}" for line in relay.process.errors().splitlines()[-12:]]
        return "\n".join(lines)

    # --- commands

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
