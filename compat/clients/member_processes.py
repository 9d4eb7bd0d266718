"""Runs group members as processes, and reads the events they print."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from compat.apache.installation import install
from compat.apache.tools import SHORT_LIVED_JVM, java_command

REPOSITORY = Path(__file__).parents[2]
JAVA_PROGRAM = Path(__file__).with_name("GroupMembers.java")
JAVA = "java"
TIMEOUT_SECONDS = 60.0
SESSION_TIMEOUT_MS = 6_000
HEARTBEAT_INTERVAL_MS = 300
_POLL_SECONDS = 0.02

Event = dict[str, Any]
PartitionKey = tuple[str, int]
Partitions = frozenset[PartitionKey]

_JAVA_ASSIGNORS = {
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
    "roundrobin": "org.apache.kafka.clients.consumer.RoundRobinAssignor",
    "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}


class Ownership(NamedTuple):
    """Time during which a member had a partition."""

    start_ns: int
    end_ns: int
    member: str


class Process:
    """A program that prints events to a file, so that it never blocks on a full pipe."""

    def __init__(self, command: list[str], output: Path) -> None:
        self.output = output
        self._errors = output.with_suffix(".err")
        with output.open("wb") as stdout, self._errors.open("wb") as stderr:
            self.process = subprocess.Popen(
                command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=stdout, stderr=stderr
            )
        self._position = 0
        self.events: list[Event] = []

    def send(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def read(self) -> list[Event]:
        """Returns new events. An incomplete line is read by the next call."""
        with self.output.open("rb") as output:
            output.seek(self._position)
            whole, _, _ = output.read().rpartition(b"\n")
        if not whole:
            return []
        self._position += len(whole) + 1
        found: list[Event] = [json.loads(line) for line in whole.splitlines()]
        self.events += found
        return found

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()

    def errors(self) -> str:
        return self._errors.read_text(errors="replace")


@dataclass(eq=False, slots=True, kw_only=True)
class Member:
    """A consumer with its process and assignment. Java members can share a process."""

    name: str
    library: str
    process: Process
    owned: Partitions = frozenset()
    events: list[Event] = field(default_factory=list)
    killed_at_ns: int | None = None
    is_over: bool = False

    def apply(self, event: Event) -> None:
        self.events.append(event)
        places = frozenset((topic, partition) for topic, partition in event.get("partitions", ()))
        match event["event"]:
            case "assigned":
                self.owned |= places
            case "revoked" | "lost":
                self.owned -= places
            case "leaving" | "ended":
                self.owned = frozenset()
                self.is_over = True

    def count(self, event: str) -> int:
        return sum(it["event"] == event for it in self.events)


class MemberProcesses:
    """Members of a group on one topic. The context manager kills their processes on exit."""

    def __init__(
        self,
        bootstrap: str,
        directory: Path,
        *,
        group: str,
        topic: str,
        assignor: str = "range",
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
    ) -> None:
        self.topic = topic
        self.options: dict[str, Any] = {
            "bootstrap": bootstrap,
            "group": group,
            "topics": [topic],
            "assignor": assignor,
            "session_timeout_ms": session_timeout_ms,
            "heartbeat_interval_ms": HEARTBEAT_INTERVAL_MS,
        }
        self.all: list[Member] = []
        self._directory = directory
        self._jvm: Process | None = None
        directory.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in {it.process for it in self.all}:
            process.close()

    # --- start and stop

    def start(
        self, *libraries: str, instance: str | None = None, own_jvm: bool = False
    ) -> list[Member]:
        """Starts one member of each library."""
        return [self._start(it, instance, own_jvm=own_jvm) for it in libraries]

    def _start(self, library: str, instance: str | None, *, own_jvm: bool) -> Member:
        name = f"{self.options['group']}-{len(self.all)}-{library}"
        if library == JAVA:
            process = self._java_process(name, own_jvm=own_jvm)
            process.send(
                f"start {name} {self.options['topics'][0]} {self._java_settings(name, instance)}"
            )
        else:
            options = {**self.options, "name": name, "instance": instance}
            program = f"compat.clients.{library.replace('-', '_')}_member"
            command = [sys.executable, "-m", program, json.dumps(options)]
            process = Process(command, self._directory / name)
        member = Member(name=name, library=library, process=process)
        self.all.append(member)
        return member

    def _java_process(self, name: str, *, own_jvm: bool) -> Process:
        if self._jvm is not None and not own_jvm:
            return self._jvm
        command = java_command(install(), SHORT_LIVED_JVM, str(JAVA_PROGRAM))
        process = Process(command, self._directory / f"{name}.jvm")
        if not own_jvm:
            self._jvm = process
        return process

    def _java_settings(self, name: str, instance: str | None) -> str:
        options = self.options
        settings: dict[str, object] = {
            "bootstrap.servers": options["bootstrap"],
            "group.id": options["group"],
            "client.id": name,
            "enable.auto.commit": "false",
            "auto.offset.reset": "earliest",
            "reconnect.backoff.max.ms": 500,
        }
        if instance:
            settings["group.instance.id"] = instance
        if options["assignor"] == "consumer":
            settings["group.protocol"] = "consumer"
        else:
            settings["group.protocol"] = "classic"
            settings["partition.assignment.strategy"] = _JAVA_ASSIGNORS[options["assignor"]]
            settings["session.timeout.ms"] = options["session_timeout_ms"]
            settings["heartbeat.interval.ms"] = options["heartbeat_interval_ms"]
        return " ".join(f"{key}={value}" for key, value in settings.items())

    def stop(self, *members: Member) -> None:
        """Stops members, which leave the group."""
        for member in members:
            if member.library == JAVA:
                member.process.send(f"stop {member.name}")
            else:
                member.process.process.send_signal(signal.SIGTERM)
        self.until(lambda: all(it.count("ended") for it in members), "members end")

    def kill(self, member: Member) -> None:
        """Kills a member's process, which must not be shared."""
        assert all(it is member or it.process is not member.process for it in self.all)
        member.process.close()
        self.read_events()
        member.killed_at_ns = time.monotonic_ns()
        member.is_over = True
        member.owned = frozenset()

    # --- events

    def read_events(self) -> None:
        by_name = {it.name: it for it in self.all}
        for process in {it.process: None for it in self.all}:
            found = process.read()
            members = [it for it in self.all if it.process is process]
            for event in found:
                (by_name[event["member"]] if "member" in event else members[0]).apply(event)

    def until(
        self, condition: Callable[[], bool], what: str, *, seconds: float = TIMEOUT_SECONDS
    ) -> None:
        deadline = time.monotonic() + seconds
        while True:
            self.read_events()
            if condition():
                return
            self._check_alive()
            assert time.monotonic() < deadline, f"timed out: {what}\n{self.diagnostics()}"
            time.sleep(_POLL_SECONDS)

    def until_shared(self, partitions: Partitions) -> None:
        """Waits until each partition has one owner and the assignment is balanced."""
        self.until(lambda: self._is_shared(partitions), f"{len(partitions)} partitions assigned")

    def _is_shared(self, partitions: Partitions) -> bool:
        present = self.present
        shares = [it.owned for it in present]
        fair = -(-len(partitions) // len(present))
        return (
            frozenset().union(*shares) == partitions
            and sum(map(len, shares)) == len(partitions)
            and max(map(len, shares)) <= fair
        )

    @property
    def present(self) -> list[Member]:
        return [it for it in self.all if not it.is_over]

    def owned(self) -> dict[PartitionKey, list[Ownership]]:
        """Returns the owners of each partition with their times."""
        found: dict[PartitionKey, list[Ownership]] = {}
        for member in self.all:
            for place, owned in times_of(member):
                found.setdefault(place, []).append(owned)
        return {place: sorted(it) for place, it in found.items()}

    def two_owners(self) -> list[tuple[PartitionKey, Ownership, Ownership]]:
        """Returns partitions assigned to a member before the previous owner revoked them."""
        return [
            (place, earlier, later)
            for place, times in self.owned().items()
            for earlier, later in pairwise(times)
            if later.start_ns < earlier.end_ns
        ]

    def read_offsets(self) -> dict[PartitionKey, set[int]]:
        """Returns the offsets read by the group."""
        found: dict[PartitionKey, set[int]] = {}
        for member in self.all:
            for event in member.events:
                if event["event"] == "read":
                    offsets = found.setdefault((event["topic"], event["partition"]), set())
                    offsets.update(range(event["first"], event["last"] + 1))
        return found

    def diagnostics(self) -> str:
        """Returns the last events of each member, for failure reports."""
        lines = []
        for member in self.all:
            lines.append(f"{member.name} owns {sorted(member.owned)}")
            lines += [f"    {it}" for it in member.events[-6:]]
            lines += [f"    {line}" for line in member.process.errors().splitlines()[-5:]]
        return "\n".join(lines)

    def _check_alive(self) -> None:
        for member in self.present:
            code = member.process.process.poll()
            assert code is None, f"{member.name} exited with {code}\n{self.diagnostics()}"


def times_of(member: Member) -> Iterator[tuple[PartitionKey, Ownership]]:
    """Yields each assignment of a partition with its start and end."""
    since: dict[PartitionKey, int] = {}
    last_ns: int = 0
    for event in member.events:
        last_ns = int(event["at_ns"])
        places = [(topic, partition) for topic, partition in event.get("partitions", ())]
        match event["event"]:
            case "assigned":
                since.update((it, since.get(it, last_ns)) for it in places)
            case "revoked" | "lost":
                for place in places:
                    if place in since:
                        yield place, Ownership(since.pop(place), last_ns, member.name)
            case "leaving":
                yield from (
                    (it, Ownership(start, last_ns, member.name)) for it, start in since.items()
                )
                since.clear()
    end_ns = last_ns if member.killed_at_ns is None else member.killed_at_ns
    for place, start_ns in since.items():
        yield place, Ownership(start_ns, end_ns, member.name)
