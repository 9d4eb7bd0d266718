"""A sound cluster of one topic, played by chance: what its clients tell makes a sound history."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pykbroker.testing.history import Client, History, Isolation, Record, Sending, Transaction

if TYPE_CHECKING:
    from random import Random

TOPIC = "trucks"
PARTITIONS = 2


@dataclass(slots=True, eq=False)
class Fate:
    """Of a transaction, or of a record outside: None while it is open."""

    is_committed: bool | None = None


@dataclass(slots=True)
class Entry:
    """What lies at an offset: a record, or a marker that no reader is shown."""

    value: str | None
    fate: Fate


@dataclass(slots=True)
class Cluster:
    """Its logs, its producers and its readers."""

    chance: Random
    history: History = field(default_factory=History)
    logs: list[list[Entry]] = field(default_factory=lambda: [[] for _ in range(PARTITIONS)])
    names: int = 0

    def play(self, steps: int) -> History:
        """At the end two readers, one of each isolation, read all there is."""
        producers = [Producer(self, it) for it in range(3)]
        readers = [Reader(self, it) for it in (*Isolation, *Isolation)]
        for _ in range(steps):
            clients: list[Producer | Reader] = [*producers, *readers]
            self.chance.choice(clients).do_something()
        for producer in producers:
            producer.finish()
        for isolation in Isolation:
            Reader(self, isolation).read_all()
        return self.history

    def name(self, kind: str) -> str:
        self.names += 1
        return f"{kind}-{self.names}"

    def append(self, partition: int, value: str | None, fate: Fate) -> int:
        self.logs[partition].append(Entry(value, fate))
        return len(self.logs[partition]) - 1

    def readable(self, partition: int, isolation: Isolation) -> list[Entry]:
        log = self.logs[partition]
        if isolation is Isolation.READ_UNCOMMITTED:
            return log
        open_at = (at for at, entry in enumerate(log) if entry.fate.is_committed is None)
        return log[: next(open_at, len(log))]


class Producer:
    """Now in a transaction, now not; its answers get lost now and then."""

    def __init__(self, cluster: Cluster, number: int) -> None:
        self.cluster = cluster
        self.chance = cluster.chance
        self.is_transactional = number > 0
        self.begin_anew()

    def begin_anew(self) -> None:
        self.client = self.cluster.history.client(self.cluster.name("producer"))
        self.values = 0
        self.transaction: Transaction | None = None
        self.fate = Fate(is_committed=True)
        self.partitions: set[int] = set()

    def do_something(self) -> None:
        if self.is_transactional and self.transaction is None:
            self.transaction = self.client.begun()
            self.fate = Fate()
        elif self.is_transactional and self.chance.random() < 0.3:
            self.end()
        else:
            self.send()

    def send(self) -> None:
        partition = self.chance.randrange(PARTITIONS)
        self.values += 1
        value = f"{self.client.name}/{self.values}"
        told_partition = self.chance.choice([partition, None])
        sending = self.client.sending(TOPIC, value, partition=told_partition)
        fortune = self.chance.random()
        if fortune < 0.05:
            sending.refused("too large")
        elif fortune < 0.1:
            self.not_told(sending)
        else:
            self.partitions.add(partition)
            offset = self.cluster.append(partition, value, self.fate)
            if fortune < 0.2 and not self.is_transactional:
                self.not_told(sending)
            else:
                sending.sent(partition=partition, offset=offset)

    def not_told(self, sending: Sending) -> None:
        if self.chance.random() < 0.5:
            sending.unanswered("timed out")

    def end(self) -> None:
        assert self.transaction is not None
        match self.chance.choice(["commit", "commit", "commit unknown", "abort", "die"]):
            case "commit":
                self.transaction.committing()
                self.decide(is_committed=True)
                self.transaction.committed()
            case "commit unknown":
                self.transaction.committing()
                self.decide(is_committed=self.chance.random() < 0.5)
                self.transaction.unanswered("timed out")
            case "abort":
                self.transaction.aborting()
                self.decide(is_committed=False)
                self.transaction.aborted()
            case "die":
                self.decide(is_committed=False)
                self.begin_anew()
        self.transaction = None
        self.partitions.clear()

    def decide(self, *, is_committed: bool) -> None:
        self.fate.is_committed = is_committed
        for partition in self.partitions:
            self.cluster.append(partition, None, self.fate)

    def finish(self) -> None:
        if self.transaction is not None:
            self.end()


class Reader:
    """Reads some or all partitions, and is moved now and then."""

    def __init__(self, cluster: Cluster, isolation: Isolation) -> None:
        self.cluster = cluster
        self.chance = cluster.chance
        self.client: Client = cluster.history.client(cluster.name("reader"), isolation=isolation)
        self.positions = dict.fromkeys(range(PARTITIONS), 0)
        self.client.assigned(*((TOPIC, it) for it in self.positions))

    def do_something(self) -> None:
        match self.chance.choice(["poll", "poll", "poll", "seek", "rebalance"]):
            case "poll":
                self.poll(self.chance.randint(1, 5))
            case "seek":
                partition = self.chance.randrange(PARTITIONS)
                offset = self.chance.randint(0, self.end_of(partition))
                self.positions[partition] = offset
                self.client.sought(TOPIC, partition, offset)
            case "rebalance":
                self.client.revoked(*((TOPIC, it) for it in self.positions))
                self.positions = dict.fromkeys(range(PARTITIONS), 0)
                self.client.assigned(*((TOPIC, it, 0) for it in self.positions))

    def read_all(self) -> None:
        while any(self.positions[it] < self.end_of(it) for it in self.positions):
            self.poll(self.chance.randint(1, 5))

    def end_of(self, partition: int) -> int:
        return len(self.cluster.readable(partition, self.client.isolation))

    def poll(self, records_max: int) -> None:
        found: list[Record] = []
        for partition in self.positions:
            found += self.take(partition, records_max)
        self.client.polled(found)

    def take(self, partition: int, records_max: int) -> list[Record]:
        start = self.positions[partition]
        readable = self.cluster.readable(partition, self.client.isolation)
        entries = readable[start : start + records_max]
        self.positions[partition] += len(entries)
        return [
            Record(TOPIC, partition, offset, entry.value)
            for offset, entry in enumerate(entries, start)
            if entry.value is not None and self.is_shown(entry)
        ]

    def is_shown(self, entry: Entry) -> bool:
        every = self.client.isolation is Isolation.READ_UNCOMMITTED
        return every or bool(entry.fate.is_committed)
