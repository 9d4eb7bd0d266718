"""PyKBroker: the embedded broker and the command line."""

from __future__ import annotations

import subprocess
import sys
import time

from benchmarks.embedded_rivals.cases import (
    COMMAND,
    FIRST_RECORD,
    FORK,
    IDLE,
    PARTITIONS,
    RECORD,
    RECORDS,
    RESET,
    SNAPSHOT,
    START,
    SUITE,
    TESTS,
    TOPIC,
    Found,
    best,
    send_one,
)
from benchmarks.process_usage import resident_bytes
from pykbroker import Broker

TOPICS = {TOPIC: PARTITIONS}
ROUNDS = 10
SERVE = [sys.executable, "-m", "pykbroker", "serve", "--ephemeral", "--listen", "127.0.0.1:0"]
SETTLE_SECONDS = 1.0


class PyKBroker:
    name = "PyKBroker"

    def measure(self) -> Found:
        found = Found()
        found.numbers[START] = best(started, ROUNDS) * 1000
        found.numbers[FIRST_RECORD] = best(first_record, ROUNDS) * 1000
        with Broker(TOPICS) as kafka:
            found.numbers[RESET] = best(lambda: reset(kafka), ROUNDS) * 1000
            kafka.produce(TOPIC, [RECORD] * RECORDS)
            found.numbers[SNAPSHOT] = best(lambda: gone_back(kafka), ROUNDS) * 1000
            found.numbers[FORK] = best(lambda: forked(kafka), ROUNDS) * 1000
        with Broker() as kafka:
            found.numbers[SUITE] = suite(kafka)
        served = [serve() for _ in range(ROUNDS)]
        found.numbers[COMMAND] = min(seconds for seconds, _ in served)
        found.numbers[IDLE] = min(idle_bytes for _, idle_bytes in served) / 1e6
        return found


def started() -> float:
    kafka = Broker(TOPICS)
    began = time.perf_counter()
    kafka.start()
    seconds = time.perf_counter() - began
    kafka.stop()
    return seconds


def first_record() -> float:
    began = time.perf_counter()
    with Broker(TOPICS) as kafka:
        send_one(**{"bootstrap.servers": kafka.bootstrap})
        return time.perf_counter() - began


def reset(kafka: Broker) -> float:
    kafka.produce(TOPIC, [b"x"] * 100)
    began = time.perf_counter()
    kafka.reset()
    return time.perf_counter() - began


def gone_back(kafka: Broker) -> float:
    began = time.perf_counter()
    with kafka.snapshot():
        pass
    return time.perf_counter() - began


def forked(kafka: Broker) -> float:
    began = time.perf_counter()
    with kafka.fork():
        return time.perf_counter() - began


def suite(kafka: Broker) -> float:
    began = time.perf_counter()
    for _ in range(TESTS):
        kafka.reset(topics=TOPICS)
        send_one(**{"bootstrap.servers": kafka.bootstrap})
        assert len(kafka.records(TOPIC)) == 1
    return time.perf_counter() - began


def serve() -> tuple[float, int]:
    """Returns the seconds until the ready line, and the memory shortly after."""
    began = time.perf_counter()
    with subprocess.Popen(
        [*SERVE, "--topic", f"{TOPIC}:{PARTITIONS}"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("pykbroker ready")
        seconds = time.perf_counter() - began
        time.sleep(SETTLE_SECONDS)
        idle_bytes = resident_bytes(process.pid)
        process.terminate()
    return seconds, idle_bytes
