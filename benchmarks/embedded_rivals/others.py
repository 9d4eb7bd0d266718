"""The other brokers: kfake (franz-go), librdkafka's mock cluster, Apache Kafka."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.embedded_rivals.cases import (
    COMMAND,
    FIRST_RECORD,
    IDLE,
    PARTITIONS,
    RESET,
    START,
    SUITE,
    TESTS,
    TOPIC,
    Found,
    best,
    send_one,
)
from benchmarks.process_usage import resident_bytes
from compat.apache import ApacheKafka

if TYPE_CHECKING:
    from collections.abc import Iterator

ROUNDS = 10
APACHE_TESTS = 10
APACHE_RESETS = 5
SETTLE_SECONDS = 1.0


class Kfake:
    """kfake, an in-memory cluster for Go tests; this process creates one per input line."""

    name = "kfake (franz-go)"

    def measure(self) -> Found:
        found = Found()
        with tempfile.TemporaryDirectory() as directory:
            program = f"{directory}/kfake"
            source = Path(__file__).parent / "kfake"
            subprocess.run(["go", "build", "-o", program, "."], cwd=source, check=True)
            served = [self.started(program) for _ in range(ROUNDS)]
            with running(program) as process:
                new_cluster(process)
                found.numbers[START] = found.numbers[RESET] = (
                    best(lambda: new_cluster(process)[1], ROUNDS) * 1000
                )
                found.numbers[FIRST_RECORD] = best(lambda: first_record(process), ROUNDS) * 1000
                began = time.perf_counter()
                for _ in range(TESTS):
                    first_record(process)
                found.numbers[SUITE] = time.perf_counter() - began
        found.numbers[COMMAND] = min(seconds for seconds, _ in served)
        found.numbers[IDLE] = min(idle_bytes for _, idle_bytes in served) / 1e6
        found.remarks = [
            "clean: a new cluster at another address; no reset, snapshot or fork",
            "in the process: a Go program; records are stored in memory",
        ]
        return found

    @staticmethod
    def started(program: str) -> tuple[float, int]:
        began = time.perf_counter()
        with running(program) as process:
            new_cluster(process)
            seconds = time.perf_counter() - began
            time.sleep(SETTLE_SECONDS)
            return seconds, resident_bytes(process.pid)


@contextmanager
def running(program: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


def new_cluster(process: subprocess.Popen[str]) -> tuple[str, float]:
    """Returns the address, and the seconds of the creation inside the process."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    address, nanoseconds = process.stdout.readline().split()
    return address, int(nanoseconds) / 1e9


def first_record(process: subprocess.Popen[str]) -> float:
    began = time.perf_counter()
    address, _ = new_cluster(process)
    send_one(**{"bootstrap.servers": address})
    return time.perf_counter() - began


class MockCluster:
    """librdkafka's mock cluster, which is part of a client instance."""

    name = "librdkafka's mock cluster"

    def measure(self) -> Found:
        found = Found()
        found.numbers[FIRST_RECORD] = best(mocked, ROUNDS) * 1000
        began = time.perf_counter()
        for _ in range(TESTS):
            mocked()
        found.numbers[SUITE] = time.perf_counter() - began
        found.remarks = [
            "part of its client: no start, process or memory of its own",
            "clean: a new client with a new cluster; no snapshot or fork",
        ]
        return found


def mocked() -> float:
    began = time.perf_counter()
    send_one(**{"test.mock.num.brokers": 1})
    return time.perf_counter() - began


class Apache:
    name = "Apache Kafka 4.3.1"

    def measure(self) -> Found:
        found = Found()
        directory = Path(tempfile.mkdtemp(prefix="apache-"))
        try:
            ApacheKafka(directory / "warm", heap="256m").start().stop()
            began = time.perf_counter()
            with ApacheKafka(directory / "data", heap="256m") as apache:
                found.numbers[COMMAND] = time.perf_counter() - began
                make_topic(apache.bootstrap, TOPIC)
                send_one(**{"bootstrap.servers": apache.bootstrap})
                found.numbers[FIRST_RECORD] = (time.perf_counter() - began) * 1000
                found.numbers[RESET] = (
                    best(lambda: recreated(apache.bootstrap), APACHE_RESETS) * 1000
                )
                began = time.perf_counter()
                for _ in range(APACHE_TESTS):
                    recreated(apache.bootstrap)
                    send_one(**{"bootstrap.servers": apache.bootstrap})
                found.numbers[SUITE] = (time.perf_counter() - began) / APACHE_TESTS * TESTS
                time.sleep(SETTLE_SECONDS)
                found.numbers[IDLE] = resident_bytes(apache.pid) / 1e6
        finally:
            shutil.rmtree(directory, ignore_errors=True)
        found.remarks = [
            "one process with broker and controller, 256 MB of heap",
            "clean: the topic is deleted and created again",
            f"{APACHE_TESTS} tests were run, and their time taken for {TESTS}",
            "does not run in the process of a test; no snapshot or fork",
        ]
        return found


def make_topic(bootstrap: str, topic: str) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(60)


def recreated(bootstrap: str) -> float:
    """Retries until the topic is created; DeleteTopics responds before the deletion is complete."""
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    began = time.perf_counter()
    admin.delete_topics([TOPIC])[TOPIC].result(60)
    while True:
        try:
            admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(60)
        except KafkaException as refusal:
            if refusal.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
        else:
            return time.perf_counter() - began
