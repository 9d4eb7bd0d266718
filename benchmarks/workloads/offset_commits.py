"""OffsetCommit requests with one partition."""

from collections.abc import Iterator

from benchmarks.client_process import run_client
from benchmarks.measurement import Sample
from benchmarks.rivals import Broker
from benchmarks.topics import topic
from benchmarks.workloads.kinds import Scale, ServingWorkload, cost_of
from benchmarks.workloads.one_record import request_samples

LANES = ((1, 1), (4, 20))  # connections, requests in flight on each


def run(broker: Broker, scale: Scale) -> Iterator[Sample]:
    with topic(broker, partitions=4) as name:
        for connections, depth in LANES:
            with cost_of(broker) as cost:
                client = run_client(
                    "offset_commits", broker.port, name, connections, depth, scale.commits
                )
            yield from request_samples(connections, depth, client, cost.cpu_seconds)


WORKLOAD = ServingWorkload(name="offset-commits", run=run)
