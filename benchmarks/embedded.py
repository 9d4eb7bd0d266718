"""Durations of the embedded broker in tests: `python -m benchmarks.embedded` prints a table."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING

from pykbroker import Broker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

ROUNDS = 15
MANY = 100_000
TESTS = 200
IMPORT = """
import time
began = time.process_time()
from pykbroker import Broker
Broker
print(time.process_time() - began)
"""


def main() -> None:
    for what, seconds in measurements():
        print(f"{what:72} {seconds * 1000:8.1f} ms")


def measurements() -> Iterator[tuple[str, float]]:
    yield "import of the embedded broker, CPU time", best(imported, rounds=5)
    yield "start with 10 partitions", best(started)
    yield "start to the first record, imports included", first_record()
    yield "start to the first record", best(first_record)
    yield "librdkafka's mock cluster: start to the first record", best(first_record_of_the_mock)
    yield "stop", best(stopped)
    with Broker(topics={"trucks": 10}) as kafka:
        yield "reset of 10 partitions with records", best(lambda: reset(kafka))
        kafka.produce("trucks", [b"x" * 100] * MANY)
        yield f"fork with {MANY} records", best(lambda: forked(kafka))
        yield f"fork with {MANY} records and start", best(lambda: forked(kafka, start=True))
        yield f"snapshot and restore of {MANY} records", best(lambda: restored(kafka))
    with Broker(topics={"trucks": 10}) as kafka:
        read_in_a_group(kafka)
        yield (
            "advance of the clock by eight days, with a group",
            best(lambda: advanced(kafka), rounds=5),
        )
    with Broker() as kafka:
        yield f"{TESTS} times: reset, producer, one record", many_tests(kafka)


def best(measure: Callable[[], float], *, rounds: int = ROUNDS) -> float:
    """Returns the minimum of several rounds, the one least disturbed by other processes."""
    return min(measure() for _ in range(rounds))


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def imported() -> float:
    done = subprocess.run(
        [sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def started() -> float:
    kafka = Broker(topics={"trucks": 10})
    seconds = timed(kafka.start)
    kafka.stop()
    return seconds


def stopped() -> float:
    kafka = Broker(topics={"trucks": 10})
    kafka.start()
    return timed(kafka.stop)


def first_record() -> float:
    began = time.perf_counter()
    with Broker(topics={"trucks": 10}) as kafka:
        send_one(kafka)
        return time.perf_counter() - began


def first_record_of_the_mock() -> float:
    return timed(lambda: send({"test.mock.num.brokers": 1}))


def send_one(kafka: Broker) -> None:
    send({"bootstrap.servers": kafka.bootstrap})


def send(settings: dict[str, str | int]) -> None:
    from confluent_kafka import Producer

    producer = Producer({**settings, "linger.ms": 0, "log_level": 0})
    producer.produce("trucks", b"x")
    producer.flush()


def reset(kafka: Broker) -> float:
    kafka.produce("trucks", [b"x"] * 100)
    return timed(kafka.reset)


def forked(kafka: Broker, *, start: bool = False) -> float:
    began = time.perf_counter()
    other = kafka.fork()
    if start:
        other.start()
    seconds = time.perf_counter() - began
    other.stop()
    return seconds


def restored(kafka: Broker) -> float:
    snapshot: AbstractContextManager[object] = kafka.snapshot()
    return timed(snapshot.__enter__) + timed(lambda: snapshot.__exit__(None, None, None))


def read_in_a_group(kafka: Broker) -> None:
    from confluent_kafka import Consumer

    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "g"})
    consumer.subscribe(["trucks"])
    consumer.poll(2)
    consumer.close()


def advanced(kafka: Broker) -> float:
    return timed(lambda: kafka.clock.advance(days=8))


def many_tests(kafka: Broker) -> float:
    began = time.perf_counter()
    for _ in range(TESTS):
        kafka.reset(topics={"trucks": 10})
        send_one(kafka)
        assert len(kafka.records("trucks")) == 1
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
