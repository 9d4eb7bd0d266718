"""Interfaces of workloads: on a running broker, or starting brokers themselves."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks import process_usage
from benchmarks.measurement import Sample
from benchmarks.process_usage import Cost
from benchmarks.rivals import Broker, Rival


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Amount of work: enough to measure, or only enough to check that it runs."""

    small_records: int  # of 100 bytes
    large_records: int  # of 1 KB
    java_records: int
    requests: int
    restart_bytes: int
    idle_connections: int
    partitions: int
    group_members: int
    group_partitions: int
    groups: int
    commits: int
    compacted_records: int
    transactions: int
    committed_records: int
    spark_records: int
    flushed_requests: int
    cold_bytes: int
    slow_disk_seconds: float
    hostile_seconds: float
    warm_up_seconds: float
    cluster_seconds: float
    member_partitions: int
    kills: int


FULL = Scale(
    small_records=1_000_000,
    large_records=300_000,
    java_records=1_000_000,
    requests=40_000,
    restart_bytes=1_000_000_000,
    idle_connections=5_000,
    partitions=2_000,
    group_members=200,
    group_partitions=1_000,
    groups=10_000,
    commits=20_000,
    compacted_records=2_000_000,
    transactions=1_000,
    committed_records=1_000_000,
    spark_records=5_000_000,
    flushed_requests=4_096,
    cold_bytes=80_000_000,
    slow_disk_seconds=15.0,
    hostile_seconds=6.0,
    warm_up_seconds=15.0,
    cluster_seconds=20.0,
    member_partitions=1_000,
    kills=5,
)
QUICK = Scale(
    small_records=100_000,
    large_records=30_000,
    java_records=50_000,
    requests=4_000,
    restart_bytes=50_000_000,
    idle_connections=500,
    partitions=200,
    group_members=20,
    group_partitions=100,
    groups=500,
    commits=2_000,
    compacted_records=500_000,
    transactions=100,
    committed_records=100_000,
    spark_records=200_000,
    flushed_requests=256,
    cold_bytes=10_000_000,
    slow_disk_seconds=2.0,
    hostile_seconds=2.0,
    warm_up_seconds=3.0,
    cluster_seconds=4.0,
    member_partitions=100,
    kills=1,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingWorkload:
    """A workload for a running broker, the same in all rounds."""

    name: str
    run: Callable[[Broker, Scale], Iterable[Sample]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleWorkload:
    """A workload that starts and stops brokers, with one directory for all rounds."""

    name: str
    run: Callable[[Rival, Path, Scale], Iterable[Sample]]
    warms_up: bool = False  # new processes only need a warm page cache


Workload = ServingWorkload | LifecycleWorkload


@contextmanager
def cost_of(broker: Broker) -> Iterator[Cost]:
    cost = Cost()
    before = process_usage.cpu_seconds(broker.pid)
    yield cost
    cost.cpu_seconds = process_usage.cpu_seconds(broker.pid) - before


def memory_of(broker: Broker, case: str) -> Iterator[Sample]:
    yield from memory_of_process(broker.pid, case)


def memory_of_process(pid: int, case: str) -> Iterator[Sample]:
    for metric, read in (
        ("resident memory", process_usage.resident_bytes),
        ("own memory", process_usage.own_bytes),
    ):
        yield Sample(case=case, metric=metric, unit="MB", value=read(pid) / 1e6)
