"""Delivery guarantees (at most once, at least once, exactly once) under crashes.

Relays copy records from one topic to another while the test kills, suspends and replaces them, and
kills the broker. `PYKBROKER_CRASHES=500 pytest tests/delivery` sets the number of crashes,
`PYKBROKER_SEED` repeats their order, `PYKBROKER_DELIVERY_BROKER=apache` tests Apache Kafka.
"""

from __future__ import annotations

import itertools
import os
import time
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaException

from compat.clients.relay_processes import RelayProcesses
from compat.clients.relay_program import SESSION_TIMEOUT_MS, Guarantee, origin_of
from pykbroker.testing.history import Anomaly, Deliveries, History, count_deliveries, expect_sound
from tests.delivery.writer_and_reader import (
    TIMEOUT_SECONDS,
    WRITER_ID,
    Ends,
    Writer,
    committed,
    end_transactions,
    read_all,
)
from tests.end_to_end.groups.writing import create_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.delivery.conftest import Node

CRASHES = int(os.environ.get("PYKBROKER_CRASHES", "2"))
IS_LONG = "PYKBROKER_CRASHES" in os.environ
SEED = int(os.environ.get("PYKBROKER_SEED", str(time.time_ns() % 1_000_000)))
SOURCE, SINK = "source", "sink"
PARTITIONS = 4
RELAYS = 2
SLEEP_SECONDS = 2 * SESSION_TIMEOUT_MS / 1000
KINDS = ["broker", "relay", "zombie", "sleeper", "both"]


@dataclass(slots=True, kw_only=True)
class CrashRun:
    """Runs relays between two topics and injects crashes."""

    node: Node
    directory: Path
    library: str
    guarantee: Guarantee
    is_source_transactional: bool
    chance: Random = field(default_factory=lambda: Random(SEED))
    history: History = field(default_factory=History)

    def play(self, show_on_failure: Callable[[str, Callable[[], str]], None]) -> Deliveries:
        for topic in (SOURCE, SINK):
            create_topic(self.node.bootstrap, topic, PARTITIONS)
        with self.relays() as relays:
            show_on_failure("relays", relays.diagnostics)
            with self.writer():
                self.until(relays, lambda: relays.count("committed") > 0, "first commit")
                for kind in itertools.islice(self.kinds(), CRASHES):
                    self.crash(relays, kind)
            self.end_transactions([WRITER_ID])
            ends = self.read_all("source", SOURCE)
            self.until(relays, lambda: self.have_committed(ends, relays), "all records are relayed")
            relays.stop()
            print(f"{relays.count('committed')} committed, {relays.count('aborted')} aborted")
        self.end_transactions(relays.transactional_ids)
        self.read_all("sink", SINK)
        history = History.load(*relays.histories)
        history.events += self.history.events
        history.save(self.directory / "history.jsonl")
        expect_sound(history, allowed=ALLOWED[self.guarantee])
        return count_deliveries(history, source=SOURCE, sink=SINK, origin=origin_of)

    def relays(self) -> RelayProcesses:
        return RelayProcesses(
            self.node.bootstrap,
            self.directory / "relays",
            library=self.library,
            guarantee=self.guarantee,
            source=SOURCE,
            sink=SINK,
            partitions=PARTITIONS,
            relays=RELAYS,
            chance=self.chance,
        )

    def writer(self) -> Writer:
        return Writer(
            self.node.bootstrap,
            self.history,
            SOURCE,
            PARTITIONS,
            chance=Random(self.chance.random()),
            is_transactional=self.is_source_transactional,
        )

    def kinds(self) -> Iterator[str]:
        """Yields kinds of crashes: two important ones first, then all kinds in random order."""
        yield "both"
        yield self.chance.choice(["zombie", "sleeper"])
        while True:
            yield from self.chance.sample(KINDS, len(KINDS))

    def crash(self, relays: RelayProcesses, kind: str) -> None:
        """Injects a crash at a random time."""
        self.until(relays, relays.is_ready, "all relays have started")
        before = relays.count("committed")
        self.until(relays, lambda: relays.count("committed") > before, "relays commit again")
        relays.kill_zombies()
        time.sleep(self.chance.uniform(0, 0.3))
        match kind:
            case "broker":
                self.kill_the_broker()
            case "relay":
                relays.kill(self.chance.randrange(RELAYS))
            case "zombie":
                relays.replace_frozen(self.chance.randrange(RELAYS))
                self.until(relays, relays.is_ready, "all relays have started")
                relays.resume()
            case "sleeper":
                self.suspend_beyond_session(relays, self.chance.randrange(RELAYS))
            case "both":
                relays.kill(self.chance.randrange(RELAYS))
                self.kill_the_broker()

    def suspend_beyond_session(self, relays: RelayProcesses, slot: int) -> None:
        """Suspends a relay longer than its session timeout; its old generation must be fenced."""
        relays.suspend(slot)
        time.sleep(SLEEP_SECONDS)
        relays.resume()
        relays.zombies.clear()

    def kill_the_broker(self) -> None:
        self.node.kill()
        self.node.start()

    def have_committed(self, ends: Ends, relays: RelayProcesses) -> bool:
        try:
            found = committed(self.node.bootstrap, relays.group, SOURCE, PARTITIONS)
        except KafkaException:
            return False
        return all(found[partition] >= end for partition, end in ends.items())

    def end_transactions(self, transactional_ids: list[str]) -> None:
        if self.guarantee is Guarantee.EXACTLY_ONCE:
            end_transactions(self.node.bootstrap, transactional_ids)

    def read_all(self, name: str, topic: str) -> Ends:
        client = self.history.client(f"reader of the {name}")
        return read_all(self.node.bootstrap, client, topic, PARTITIONS)

    def until(self, relays: RelayProcesses, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not condition():
            relays.restart_ended()
            assert time.monotonic() < deadline, f"timed out: {what}\n{relays.diagnostics()}"
            time.sleep(0.05)


ALLOWED: dict[Guarantee, set[Anomaly]] = {
    Guarantee.AT_MOST_ONCE: set(),
    Guarantee.AT_LEAST_ONCE: {Anomaly.DUPLICATE},
    Guarantee.EXACTLY_ONCE: set(),
}
"""A non-idempotent producer can write duplicates when it retries."""


@pytest.fixture
def play(
    node: Node, tmp_path: Path, show_on_failure: Callable[[str, Callable[[], str]], None]
) -> Callable[[str, Guarantee], Deliveries]:
    show_on_failure("seed", lambda: f"PYKBROKER_SEED={SEED}")

    def play(library: str, guarantee: Guarantee) -> Deliveries:
        run = CrashRun(
            node=node,
            directory=tmp_path,
            library=library,
            guarantee=guarantee,
            is_source_transactional=guarantee is Guarantee.EXACTLY_ONCE,
        )
        return run.play(show_on_failure)

    return play


JAVA = pytest.param("java", marks=pytest.mark.oracle)
LIBRARIES = ["confluent", "kafka-python", "aiokafka", JAVA]
"""Exactly-once differs between libraries; the other guarantees are tested briefly with one."""


@pytest.mark.slow
@pytest.mark.parametrize("library", LIBRARIES if IS_LONG else ["confluent"])
def test_at_most_once_writes_no_duplicates(
    library: str, play: Callable[[str, Guarantee], Deliveries]
) -> None:
    found = play(library, Guarantee.AT_MOST_ONCE)
    assert found.are_at_most_once, str(found)


@pytest.mark.slow
@pytest.mark.parametrize("library", LIBRARIES if IS_LONG else ["kafka-python"])
def test_at_least_once_loses_no_records(
    library: str, play: Callable[[str, Guarantee], Deliveries]
) -> None:
    found = play(library, Guarantee.AT_LEAST_ONCE)
    assert found.are_at_least_once, str(found)


@pytest.mark.slow
@pytest.mark.parametrize("library", LIBRARIES)
def test_exactly_once_writes_each_committed_record_once_and_in_order(
    library: str, play: Callable[[str, Guarantee], Deliveries]
) -> None:
    found = play(library, Guarantee.EXACTLY_ONCE)
    assert found.are_exactly_once, str(found)
