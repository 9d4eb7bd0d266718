"""The performance tools of Apache Kafka's Java client."""

import re
import resource
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.client_process import ClientFailedError
from benchmarks.measurement import Sample
from benchmarks.rivals import Broker
from benchmarks.topics import topic
from benchmarks.workloads.kinds import Scale, ServingWorkload, cost_of, memory_of
from compat.apache.tools import MEASURING_JVM, ApacheTools

RECORD_BYTES = 100
_PRODUCED = re.compile(r" records sent, ([\d.]+) records/sec .*?([\d.]+) ms 99th")
_RECORDS_COLUMN, _RATE_COLUMN = 4, 5
_SILENT = "org.apache.kafka.tools.consumer.NoOpMessageFormatter"


def run(broker: Broker, scale: Scale) -> Iterator[Sample]:
    records = scale.java_records
    with topic(broker, partitions=1) as name:
        yield from _produce(broker, name, records)
        yield from _consume_one_partition(broker, name, records)
        yield from memory_of(broker, "after these")
        yield from _consume_as_group(broker, name, records)


def _produce(broker: Broker, name: str, records: int) -> Iterator[Sample]:
    case = f"producer-perf {RECORD_BYTES} B"
    with cost_of(broker) as cost, _cores_used() as busy:
        said = _tool(
            "producer-perf",
            *("--bootstrap-server", broker.bootstrap, "--topic", name),
            *("--num-records", records, "--record-size", RECORD_BYTES, "--throughput", -1),
            *("--command-property", "acks=all"),
        )
    rate, p99_ms = _PRODUCED.findall(said)[-1]
    yield Sample(case=case, metric="throughput", unit="records/s", value=float(rate))
    yield Sample(case=case, metric="p99 (queueing included)", unit="ms", value=float(p99_ms))
    yield Sample(case=case, metric="client busy", unit="cores", value=busy[0])
    yield _cpu_per_gigabyte(case, cost.cpu_seconds, records)


def _consume_one_partition(broker: Broker, name: str, records: int) -> Iterator[Sample]:
    """Uses the console consumer with manual assignment, so no group is needed."""
    with cost_of(broker) as cost:
        said = _tool(
            "console-consumer",
            *("--bootstrap-server", broker.bootstrap, "--topic", name, "--partition", 0),
            *("--offset", "earliest", "--max-messages", records, "--formatter", _SILENT),
            *("--timeout-ms", 30_000),
            errors_too=True,
        )
    if f"Processed a total of {records} messages" not in said:
        raise ClientFailedError(said)
    yield _cpu_per_gigabyte(f"console-consumer {RECORD_BYTES} B", cost.cpu_seconds, records)


def _consume_as_group(broker: Broker, name: str, records: int) -> Iterator[Sample]:
    with cost_of(broker) as cost, _cores_used() as busy:
        said = _tool(
            "consumer-perf",
            *("--bootstrap-server", broker.bootstrap, "--topic", name, "--num-records", records),
            "--hide-header",
        )
    columns = [column.strip() for column in said.strip().splitlines()[-1].split(",")]
    if int(columns[_RECORDS_COLUMN]) < records:
        raise ClientFailedError(said)
    case = f"consumer-perf {RECORD_BYTES} B"
    rate = float(columns[_RATE_COLUMN])
    yield Sample(case=case, metric="throughput", unit="records/s", value=rate)
    yield Sample(case=case, metric="client busy", unit="cores", value=busy[0])
    yield _cpu_per_gigabyte(case, cost.cpu_seconds, records)


def _cpu_per_gigabyte(case: str, cpu_seconds: float, records: int) -> Sample:
    gigabytes = records * RECORD_BYTES / 1e9
    return Sample(case=case, metric="broker CPU per GB", unit="s/GB", value=cpu_seconds / gigabytes)


@contextmanager
def _cores_used() -> Iterator[list[float]]:
    """Appends the number of cores used by tools that ended meanwhile, including their start."""
    busy: list[float] = []
    began, before = time.perf_counter(), _ended_children_cpu_seconds()
    yield busy
    busy.append((_ended_children_cpu_seconds() - before) / (time.perf_counter() - began))


def _ended_children_cpu_seconds() -> float:
    """Brokers are also child processes, but they are still running."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _tool(name: str, *arguments: object, errors_too: bool = False) -> str:
    tools = ApacheTools.installed(jvm=MEASURING_JVM)
    try:
        completed = tools.tool(name, *arguments, timeout_seconds=300)
    except subprocess.TimeoutExpired as expired:
        raise ClientFailedError(f"{name} did not end") from expired
    if completed.returncode != 0:
        raise ClientFailedError(f"{completed.stdout}{completed.stderr}")
    return completed.stdout + (completed.stderr if errors_too else "")


WORKLOAD = ServingWorkload(name="java", run=run)
