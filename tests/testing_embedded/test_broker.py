"""Embedded brokers: clients, start, stop, errors and cleanup."""

import asyncio
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pykbroker
from pykbroker import AsyncBroker, Broker, CannotStart, Topic
from pykbroker.event_loop import new_event_loop
from pykbroker.testing.async_broker import NotRunning, TopicRefused

ROUNDS = 12
LOOPS = {"uvloop": new_event_loop, "asyncio": asyncio.SelectorEventLoop}
START_SECONDS_MAX = 0.05  # of processor time: the machine may have other work


@pytest.mark.parametrize("loop_factory", LOOPS.values(), ids=LOOPS)
def test_kafka_python_writes_and_reads(
    loop_factory: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    from kafka import KafkaConsumer, KafkaProducer

    with Broker(topics={"trucks": 2}, loop_factory=loop_factory) as kafka:
        producer = KafkaProducer(bootstrap_servers=kafka.bootstrap)
        producer.send("trucks", b"hello", key=b"1").get(timeout=10)
        producer.close()
        (record,) = kafka.records("trucks")
        assert (record.key, record.value) == (b"1", b"hello")
        consumer = KafkaConsumer(
            "trucks",
            bootstrap_servers=kafka.bootstrap,
            group_id="readers",
            auto_offset_reset="earliest",
            consumer_timeout_ms=10_000,
        )
        assert next(consumer).value == b"hello"
        consumer.commit()
        consumer.close()
        assert kafka.offsets("readers")["trucks", record.partition] == 1


def test_librdkafka_reads_records_written_by_produce() -> None:
    from confluent_kafka import Consumer

    with Broker(topics=["trucks"]) as kafka:
        kafka.produce("trucks", [{"speed": speed} for speed in range(3)])
        consumer = Consumer(
            {
                "bootstrap.servers": kafka.bootstrap,
                "group.id": "readers",
                "auto.offset.reset": "earliest",
            }
        )
        consumer.subscribe(["trucks"])
        found = consumer.consume(3, timeout=10)
        consumer.close()
        assert [it.value() for it in found] == [b'{"speed":0}', b'{"speed":1}', b'{"speed":2}']


async def test_aiokafka_and_async_broker_share_an_event_loop() -> None:
    from aiokafka import AIOKafkaProducer

    async with AsyncBroker(topics={"trucks": 1}) as kafka:
        async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap) as producer:
            waiting = asyncio.create_task(kafka.wait_for("trucks", count=2))
            await producer.send_and_wait("trucks", b"a")
            await producer.send_and_wait("trucks", b"b")
        assert [it.text for it in await waiting] == ["a", "b"]


def test_two_brokers_run_at_the_same_time() -> None:
    with Broker(topics=["t"]) as one, Broker(topics=["t"]) as other:
        assert one.bootstrap != other.bootstrap
        one.produce("t", ["only here"])
        assert other.records("t") == []


@pytest.mark.parametrize("loop_factory", LOOPS.values(), ids=LOOPS)
def test_stopped_brokers_leave_no_threads_files_or_maps(
    loop_factory: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    live_once(loop_factory)
    before = footprint()
    for _ in range(ROUNDS):
        live_once(loop_factory)
    assert footprint() == before


def live_once(loop_factory: Callable[[], asyncio.AbstractEventLoop]) -> None:
    with Broker(topics={"t": 3}, loop_factory=loop_factory) as kafka:
        kafka.produce("t", [os.urandom(100_000)] * 3)
        assert len(kafka.records("t")) == 3
        directory = kafka.directory
    assert not directory.exists()


def footprint() -> tuple[int, int, int]:
    """Threads, open files and maps of segment files of this process."""
    maps = Path("/proc/self/maps").read_text()
    return (
        threading.active_count(),
        len(list(Path("/proc/self/fd").iterdir())),
        maps.count("pykbroker-"),
    )


def test_a_broker_that_is_not_stopped_does_not_keep_the_process_alive(tmp_path: Path) -> None:
    script = tmp_path / "forgetful.py"
    script.write_text(
        "import pykbroker\n"
        "kafka = pykbroker.Broker(topics=['t'])\n"
        "kafka.start()\n"
        "other = kafka.fork()\n"
        "print(kafka.directory)\n"
    )

    ended = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=20, check=True
    )
    assert ended.stderr == ""
    directory = Path(ended.stdout.strip())
    assert list(directory.parent.glob(f"{directory.name}*")) == []


COPIED_PROCESS = """
import os, sys, warnings
warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
from pykbroker import Broker
from pykbroker.testing.async_broker import NotRunning

with Broker(topics=["t"]) as kafka:
    other = kafka.fork()
    process_id = os.fork()
    if not process_id:
        try:
            kafka.records("t")
        except NotRunning as reason:
            print(reason)
        sys.exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(process_id, 0)[1]) == 7
    kafka.produce("t", ["a"])
    with other:
        other.produce("t", ["a"])
    print("served on")
"""


def test_a_forked_child_does_not_stop_the_broker_or_delete_its_data() -> None:
    command = [sys.executable, "-c", COPIED_PROCESS]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert ended.stderr == ""
    assert ended.stdout == ("the broker runs in the parent of this forked process\nserved on\n")


def test_a_broker_starts_in_milliseconds() -> None:
    durations = []
    for _ in range(5):
        kafka = Broker(topics={"trucks": 10})
        began = time.process_time()
        kafka.start()
        durations.append(time.process_time() - began)
        kafka.stop()
    assert min(durations) < START_SECONDS_MAX


@pytest.mark.parametrize(
    ("kafka", "reason"),
    [
        (lambda: Broker(config={"log.retention.msec": 1}), "did you mean log.retention.ms"),
        (lambda: Broker(config={"num.partitions": 0}), "num.partitions"),
        (lambda: Broker(topics={"no blanks": 1}), "topic no blanks: "),
        (lambda: Broker(topics={"t": 0}), "topic t: "),
        (lambda: Broker(topics={"t": Topic(config={"retention.ms": "soon"})}), "topic t: "),
        (lambda: Broker(data="/proc/nowhere"), "/proc/nowhere cannot be used"),
        (lambda: Broker(config={"listeners": "SSL://:0"}), "SSL is not supported, use PLAINTEXT"),
        (lambda: Broker(config={"log.dirs": "data"}), "use data=… for the directory"),
        (lambda: Broker(config={"log.dir": "data"}), "use data=… for the directory"),
    ],
)
def test_a_failed_start_raises_cannot_start_with_one_line(
    kafka: Callable[[], Broker], reason: str
) -> None:
    before = threading.active_count()
    with pytest.raises(CannotStart) as refusal:
        kafka().start()
    assert reason in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert threading.active_count() == before


@pytest.mark.parametrize(
    ("topics", "reason"),
    [
        ({"trucks": "3"}, r"topic trucks: expected a number of partitions or Topic\(…\), not '3'"),
        ({"trucks": {"partitions": 3}}, "topic trucks: expected a number"),
        ({"trucks": True}, "topic trucks: expected a number"),
        ({"trucks": Topic("3")}, "topic trucks: expected a number"),  # type: ignore[arg-type]
        ([("trucks", 3)], r"a topic name must be a str, not \('trucks', 3\)"),
    ],
)
def test_invalid_topics_raise_type_error(topics: Any, reason: str) -> None:
    with pytest.raises(TypeError, match=reason):
        Broker(topics)


def test_a_directory_has_one_broker_at_a_time(tmp_path: Path) -> None:
    with Broker(data=tmp_path), pytest.raises(CannotStart, match="locked by another process"):
        Broker(data=tmp_path).start()


def test_data_in_a_given_directory_is_kept(tmp_path: Path) -> None:
    with Broker(topics=["t"], data=tmp_path) as kafka:
        kafka.produce("t", ["kept"])
    with Broker(topics=["t"], data=tmp_path) as kafka:
        assert [it.text for it in kafka.records("t")] == ["kept"]


def test_methods_of_a_stopped_broker_raise_not_running() -> None:
    kafka = Broker(topics=["t"])
    with pytest.raises(NotRunning):
        _ = kafka.bootstrap
    with kafka:
        pass
    with pytest.raises(NotRunning):
        kafka.records("t")


def test_a_stopped_broker_starts_again_empty() -> None:
    kafka = Broker(topics=["t"])
    for _ in range(2):
        with kafka:
            assert kafka.produce("t", ["a"]) == len(kafka.records("t")) == 1


def test_create_topics_creates_topics_with_config() -> None:
    with Broker() as kafka:
        kafka.create_topics({"t": Topic(3, config={"retention.ms": 1000})})
        kafka.produce("t", ["x"], partition=2)
        assert kafka.records("t")[0].partition == 2
        with pytest.raises(TopicRefused, match="already exists"):
            kafka.create_topics(["t"])


def test_importing_the_package_does_not_import_the_broker() -> None:

    program = "import pykbroker, sys; print(sorted(it for it in sys.modules if 'pykb' in it))"
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "['pykbroker']"
    assert set(pykbroker.__all__) <= set(dir(pykbroker))
    with pytest.raises(AttributeError, match="Brokre"):
        _ = pykbroker.Brokre


def test_starting_a_running_broker_raises_cannot_start() -> None:
    with Broker("t") as kafka:
        with pytest.raises(CannotStart, match="is already running"):
            kafka.start()
        kafka.produce("t", ["still there"])


def test_configured_listeners_keep_their_port_after_a_restart() -> None:
    listeners = "INSIDE://localhost:0,OUTSIDE://127.0.0.1:0"
    protocols = "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT"
    config = {
        "listeners": listeners,
        "listener.security.protocol.map": protocols,
        "inter.broker.listener.name": "INSIDE",
    }
    with Broker(["t"], config) as kafka:
        address = kafka.bootstrap
        assert address.startswith("localhost:")
        kafka.restart()
        assert kafka.bootstrap == address


def test_an_error_of_the_loop_factory_is_raised() -> None:
    def no_loop() -> asyncio.AbstractEventLoop:
        raise OSError("too many open files")

    kafka = Broker(loop_factory=no_loop)
    with pytest.raises(OSError, match="too many open files"):
        kafka.start()
    kafka.stop()


@pytest.mark.parametrize("life", ["restart", "crash"])
def test_a_broker_that_is_down_can_be_restarted(life: str) -> None:
    with Broker(["t"]) as kafka:
        kafka.produce("t", ["kept"])
        address = kafka.bootstrap
        with kafka.faults.disk_full(), pytest.raises(CannotStart, match="No space left"):
            kafka.crash()
        with pytest.raises(NotRunning, match="the broker is down"):
            kafka.records("t")
        getattr(kafka, life)()
        assert kafka.bootstrap == address
        assert [it.text for it in kafka.records("t")] == ["kept"]


def test_an_outage_that_ends_while_the_port_is_in_use_raises_cannot_start() -> None:
    with Broker(["t"]) as kafka:
        with pytest.raises(CannotStart, match="in use"):
            take_port_in_an_outage(kafka)
        kafka.restart()
        assert kafka.produce("t", ["a"]) == 1


def take_port_in_an_outage(kafka: Broker) -> None:
    address = ("127.0.0.1", kafka.port)
    with socket.socket() as other, kafka.outage():
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(address)
        other.listen()


def test_a_broker_restarted_in_an_outage_continues_after_it() -> None:
    with Broker(["t"]) as kafka:
        with kafka.outage():
            kafka.restart()
            kafka.produce("t", ["a"])
        assert len(kafka.records("t")) == 1
