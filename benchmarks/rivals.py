"""The two measured brokers, each in its own process."""

import compileall
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pykbroker
import pykbroker_protocol
import pykbroker_storage
from benchmarks import wire
from benchmarks.measurement import APACHE, PYKBROKER
from compat.apache.apache_kafka import SERVER_JVM, ApacheKafka, free_port
from compat.broker_process import BrokerProcess

START_TIMEOUT_SECONDS = 120.0
_POLL_SECONDS = 0.002

_FOR_BOTH = {
    # Deleted files are removed immediately, which frees their page cache. In a virtual machine that
    # must allocate new memory for writes, writing takes five times the CPU.
    "log.segment.delete.delay.ms": 0,
    # The delays would be measured instead of the broker.
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.min.assignment.interval.ms": 0,
    "group.consumer.assignment.interval.ms": 0,
}
_SHIPPED_OFFSETS_PARTITIONS = 50
_APACHE = {
    "broker.session.timeout.ms": 9000,
    "broker.heartbeat.interval.ms": 2000,
    "offsets.topic.num.partitions": _SHIPPED_OFFSETS_PARTITIONS,
    **_FOR_BOTH,
}


class Broker(Protocol):
    """Interface of a broker process, as used by workloads."""

    port: int
    data_dir: Path

    @property
    def bootstrap(self) -> str: ...
    @property
    def pid(self) -> int: ...
    @property
    def is_running(self) -> bool: ...
    def start(self, *, wait: bool = True) -> object: ...
    def wait_until_serving(self) -> None: ...
    def stop(self) -> object: ...
    def kill(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Rival:
    """A kind of broker, with a factory for a data directory."""

    name: str
    make: Callable[[Path], Broker]


def rivals() -> Mapping[str, Rival]:
    return {
        PYKBROKER: Rival(name=PYKBROKER, make=_pykbroker),
        APACHE: Rival(name=APACHE, make=_apache),
    }


@contextmanager
def ended_after(broker: Broker) -> Iterator[Broker]:
    """Stops the broker at the end, or kills it after an error."""
    try:
        yield broker
        broker.stop()
    finally:
        broker.kill()


def seconds_until_metadata(broker: Broker) -> float:
    """Starts a broker; returns the seconds from the spawn to the first Metadata response."""
    return seconds_until(broker, lambda: wire.knows_itself(broker.port))


def seconds_until(broker: Broker, is_served: Callable[[], bool]) -> float:
    """Starts a broker; returns the seconds from the spawn until `is_served` returns true."""
    began = time.perf_counter()
    broker.start(wait=False)
    while not _served(is_served):
        if not broker.is_running or time.perf_counter() - began > START_TIMEOUT_SECONDS:
            broker.wait_until_serving()  # raises with the reason if the broker is not ready
            raise NeverServedError(f"the broker on {broker.data_dir} is ready, but not its data")
        time.sleep(_POLL_SECONDS)
    elapsed = time.perf_counter() - began
    broker.wait_until_serving()
    return elapsed


class NeverServedError(RuntimeError):
    """A broker is ready, but does not serve what the workload waits for."""


def _served(is_served: Callable[[], bool]) -> bool:
    try:
        return is_served()
    except OSError:
        return False


def as_installed() -> None:
    """Compiles all modules like pip does, so that no measured start compiles."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    for package in (pykbroker, pykbroker_protocol, pykbroker_storage):
        for folder in package.__path__:
            compileall.compile_dir(folder, quiet=1)


def _pykbroker(data_dir: Path) -> Broker:
    return BrokerProcess(data_dir, port=free_port(), settings=_FOR_BOTH)


def _apache(data_dir: Path) -> Broker:
    """Apache Kafka with the heap and garbage collector of its start script."""
    node = ApacheKafka(data_dir, settings=_APACHE, heap="1g", jvm=SERVER_JVM)
    node.prepare()  # formatting is not part of the measured start
    return node
