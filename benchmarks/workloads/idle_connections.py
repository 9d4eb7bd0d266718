"""Thousands of idle connections: their memory, and the latency of other requests."""

import resource
import shutil
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import process_usage, wire
from benchmarks.client_process import run_client
from benchmarks.measurement import Sample
from benchmarks.rivals import Broker, Rival, ended_after
from benchmarks.topics import create
from benchmarks.workloads.kinds import LifecycleWorkload, Scale

_SETTLE_SECONDS = 2.0
_SPARE_DESCRIPTORS = 1000
TOPIC = "idle-connections"


def run(rival: Rival, scratch: Path, scale: Scale) -> Iterator[Sample]:
    _allow_descriptors(scale.idle_connections + _SPARE_DESCRIPTORS)
    shutil.rmtree(scratch, ignore_errors=True)
    with ended_after(rival.make(scratch / "data")) as broker:
        broker.start()
        yield from _measure(broker, scale)


def _measure(broker: Broker, scale: Scale) -> Iterator[Sample]:
    create(broker, [TOPIC], partitions=1)
    before = process_usage.resident_bytes(broker.pid)
    began = time.perf_counter()
    connections = [_connect(broker.port) for _ in range(scale.idle_connections)]
    seconds = time.perf_counter() - began
    time.sleep(_SETTLE_SECONDS)
    after = process_usage.resident_bytes(broker.pid)
    client = run_client("one_record", broker.port, TOPIC, 1, 1, scale.requests // 4)
    for connection in connections:
        connection.close()
    case = f"{scale.idle_connections} idle connections"
    for metric, unit, value in (
        ("connect and one Metadata each", "s", seconds),
        ("resident memory", "MB", after / 1e6),
        ("memory per connection", "KB", (after - before) / scale.idle_connections / 1e3),
        ("p50 of a request beside them", "us", client["p50_us"]),
        ("p99 of a request beside them", "us", client["p99_us"]),
    ):
        yield Sample(case=case, metric=metric, unit=unit, value=value)


def _connect(port: int) -> socket.socket:
    """Opens a connection and sends one request, so that the broker allocates its state."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=30)
    connection.sendall(wire.METADATA_WITHOUT_TOPICS)
    wire.receive_frame(connection)
    return connection


def _allow_descriptors(count: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(count, hard), hard))


WORKLOAD = LifecycleWorkload(name="idle-connections", run=run)
