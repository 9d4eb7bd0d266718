"""A correct model of a cluster with one topic; its random clients record a valid history."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pykbroker.testing.history import Client, History, Isolation, Record, Sending, Transaction

if TYPE_CHECKING:
    from random import Random

TOPIC = "trucks"
PARTITIONS = 2


@dataclass(slots=True, eq=False)
class CommitState:
    """The state of a transaction, or of a record outside of one; None while it is open."""

    is_committed: bool | None = None


@dataclass(slots=True)
class Entry:
    """The entry at an offset: a record, or a transaction marker without a value."""

    value: str | None
    commit_state: CommitState


@dataclass(slots=True)
class Cluster:
    """The partitions' logs, and the history of the clients."""

    chance: Random
    history: History = field(default_factory=History)
    logs: list[list[Entry]] = field(default_factory=lambda: [[] for _ in range(PARTITIONS)])
    names: int = 0

    def play(self, steps: int) -> History:
        """Plays random steps; then one reader per isolation level reads all records."""
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

    def append(self, partition: int, value: str | None, state: CommitState) -> int:
        self.logs[partition].append(Entry(value, state))
        return len(self.logs[partition]) - 1

    def readable(self, partition: int, isolation: Isolation) -> list[Entry]:
        log = self.logs[partition]
        if isolation is Isolation.READ_UNCOMMITTED:
            return log
        open_at = (at for at, entry in enumerate(log) if entry.commit_state.is_committed is None)
        return log[: next(open_at, len(log))]


class Producer:
    """Sends records, in transactions or without; some responses are lost."""

    def __init__(self, cluster: Cluster, number: int) -> None:
        self.cluster = cluster
        self.chance = cluster.chance
        self.is_transactional = number > 0
        self.restart()

    def restart(self) -> None:
        self.client = self.cluster.history.client(self.cluster.name("producer"))
        self.values = 0
        self.transaction: Transaction | None = None
        self.commit_state = CommitState(is_committed=True)
        self.partitions: set[int] = set()

    def do_something(self) -> None:
        if self.is_transactional and self.transaction is None:
            self.transaction = self.client.begun()
            self.commit_state = CommitState()
        elif self.is_transactional and self.chance.random() < 0.3:
            self.end()
        else:
            self.send()

    def send(self) -> None:
        partition = self.chance.randrange(PARTITIONS)
        self.values += 1
        value = f"{self.client.name}/{self.values}"
        recorded_partition = self.chance.choice([partition, None])
        sending = self.client.sending(TOPIC, value, partition=recorded_partition)
        drawn = self.chance.random()
        if drawn < 0.05:
            sending.refused("too large")
        elif drawn < 0.1:
            self.lose_response(sending)
        else:
            self.partitions.add(partition)
            offset = self.cluster.append(partition, value, self.commit_state)
            if drawn < 0.2 and not self.is_transactional:
                self.lose_response(sending)
            else:
                sending.sent(partition=partition, offset=offset)

    def lose_response(self, sending: Sending) -> None:
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
                self.restart()
        self.transaction = None
        self.partitions.clear()

    def decide(self, *, is_committed: bool) -> None:
        self.commit_state.is_committed = is_committed
        for partition in self.partitions:
            self.cluster.append(partition, None, self.commit_state)

    def finish(self) -> None:
        if self.transaction is not None:
            self.end()


class Reader:
    """Polls all partitions, with random seeks and rebalances."""

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
        return every or bool(entry.commit_state.is_committed)
