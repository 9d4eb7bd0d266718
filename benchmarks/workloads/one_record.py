"""Produce requests with one record: the cost of a request without batching."""

from collections.abc import Iterator, Mapping

from benchmarks.client_process import run_client
from benchmarks.measurement import Sample
from benchmarks.rivals import Broker
from benchmarks.topics import topic
from benchmarks.workloads.kinds import Scale, ServingWorkload, cost_of, memory_of

CONNECTIONS = (1, 4)
DEPTHS = (1, 20)


def run(broker: Broker, scale: Scale) -> Iterator[Sample]:
    with topic(broker, partitions=max(CONNECTIONS)) as name:
        for connections in CONNECTIONS:
            for depth in DEPTHS:
                yield from _measure(broker, name, connections, depth, scale.requests)
    yield from memory_of(broker, "after all of it")


def _measure(
    broker: Broker, name: str, connections: int, depth: int, requests: int
) -> Iterator[Sample]:
    with cost_of(broker) as cost:
        client = run_client("one_record", broker.port, name, connections, depth, requests)
    yield from request_samples(connections, depth, client, cost.cpu_seconds)


def request_samples(
    connections: int, depth: int, client: Mapping[str, float], broker_cpu_seconds: float
) -> Iterator[Sample]:
    """Measures latency, throughput and broker CPU of one kind of request."""
    case = f"{connections} connection{'s' * (connections > 1)}, depth {depth}"
    cpu_per_request_us = broker_cpu_seconds / client["requests"] * 1e6
    for metric, unit, value in (
        ("throughput", "requests/s", client["requests_per_second"]),
        ("p50", "us", client["p50_us"]),
        ("p99", "us", client["p99_us"]),
        ("p99.9", "us", client["p999_us"]),
        ("broker CPU per request", "us", cpu_per_request_us),
        ("client busy", "cores", client["client_cpu_seconds"] / client["seconds"]),
    ):
        yield Sample(case=case, metric=metric, unit=unit, value=value)


WORKLOAD = ServingWorkload(name="one-record", run=run)
