"""A topic with flush.messages=1, with one producer and with many."""

from collections.abc import Iterator

from benchmarks.client_process import run_client
from benchmarks.measurement import Sample
from benchmarks.rivals import Broker
from benchmarks.topics import topic
from benchmarks.workloads.kinds import Scale, ServingWorkload, cost_of

PRODUCERS = (1, 16, 64)


def run(broker: Broker, scale: Scale) -> Iterator[Sample]:
    """All producers write to one partition with one request in flight each."""
    for producers in PRODUCERS:
        with (
            topic(broker, partitions=1, settings={"flush.messages": 1}) as name,
            cost_of(broker) as cost,
        ):
            requests = scale.flushed_requests // PRODUCERS[-1] * PRODUCERS[-1]
            client = run_client(
                "one_record", broker.port, name, producers, 1, requests, "--one-partition"
            )
        case = f"{producers} producer{'s' * (producers > 1)}"
        for metric, unit, value in (
            ("throughput", "requests/s", client["requests_per_second"]),
            ("p50", "us", client["p50_us"]),
            ("p99", "us", client["p99_us"]),
            ("broker CPU per request", "us", cost.cpu_seconds / client["requests"] * 1e6),
        ):
            yield Sample(case=case, metric=metric, unit=unit, value=value)


WORKLOAD = ServingWorkload(name="flushing", run=run)
