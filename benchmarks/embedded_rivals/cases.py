"""Measured cases of each broker. None: the broker lacks the feature."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

TOPIC = "trucks"
PARTITIONS = 10
RECORDS = 100_000
RECORD = b"x" * 100
TESTS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    name: str
    unit: str
    """`ms`, `s` or `MB`."""
    bar: float | None = None
    """Limit for PyKBroker's value."""


START = Case(name="start in the process, after import", unit="ms", bar=50)
FIRST_RECORD = Case(name="start to the first record of a producer", unit="ms")
RESET = Case(name="clean for the next test", unit="ms", bar=5)
SNAPSHOT = Case(name=f"snapshot of {RECORDS:,} records, in and out", unit="ms")
FORK = Case(name=f"fork with {RECORDS:,} records, and its start", unit="ms")
SUITE = Case(name=f"{TESTS} tests, each clean, with a producer and a record", unit="s", bar=10)
COMMAND = Case(name="start from the command line, warm", unit="s", bar=0.5)
IDLE = Case(name="memory of an idle process", unit="MB")
CASES = (START, FIRST_RECORD, RESET, SNAPSHOT, FORK, SUITE, COMMAND, IDLE)
IDLE_SHARE_MAX = 1 / 8
"""Share of Apache Kafka's idle memory."""


@dataclass(slots=True)
class Found:
    """Numbers of a broker in the units of their cases, with remarks."""

    numbers: dict[Case, float] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)


class Rival(Protocol):
    name: str

    def measure(self) -> Found: ...


def best(measure: Callable[[], float], rounds: int) -> float:
    """Returns the minimum of several rounds, the one least disturbed by other processes."""
    return min(measure() for _ in range(rounds))


def send_one(**settings: str | int) -> None:
    """Produces one acknowledged record with librdkafka, for every broker."""
    from confluent_kafka import Producer

    producer = Producer({"linger.ms": 0, "log_level": 0, **settings})
    producer.produce(TOPIC, b"x")
    if producer.flush(60):
        raise TimeoutError("record not acknowledged within 60 s")
