"""A fixed load with acks=all on three brokers, each leading a third of the partitions."""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING

from benchmarks.client_process import run_client, running_client
from benchmarks.clusters import cost_of_brokers, rotated, running_cluster
from benchmarks.measurement import Sample
from benchmarks.workloads.kinds import LifecycleWorkload

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from benchmarks.rivals import Rival
    from benchmarks.workloads.kinds import Scale
    from compat.cluster import Cluster

LOAD, PROBE = "load", "probe"
PARTITIONS = 6
RECORD_BYTES = 1000
RECORDS_PER_SECOND = 5_000
PROBE_EACH_MS = 10.0
SMALL_EACH_MS = 5.0
MIN_IN_SYNC = 2


def run(rival: Rival, scratch: Path, scale: Scale) -> Iterator[Sample]:
    shutil.rmtree(scratch, ignore_errors=True)
    with running_cluster(rival, scratch) as cluster:
        cluster.create_topic(LOAD, rotated(PARTITIONS), min_insync_replicas=MIN_IN_SYNC)
        cluster.create_topic(PROBE, rotated(1), min_insync_replicas=MIN_IN_SYNC)
        produce(cluster, scale.warm_up_seconds)
        yield from _fixed_load(cluster, scale.cluster_seconds)
        yield from _small_requests(cluster, scale.cluster_seconds)


def produce(cluster: Cluster, seconds: float) -> float:
    """Returns the gigabytes of acknowledged records."""
    amount = (PARTITIONS, RECORDS_PER_SECOND, RECORD_BYTES, seconds)
    client = run_client("fixed_rate_producer", cluster.bootstrap, LOAD, *amount)
    return client["records"] * RECORD_BYTES / 1e9


def _fixed_load(cluster: Cluster, seconds: float) -> Iterator[Sample]:
    """Measures broker CPU, and latencies of single records beside the load."""
    case = f"{RECORDS_PER_SECOND * RECORD_BYTES / 1e6:g} MB/s"
    leader = cluster.nodes[rotated(1)[0][0]]
    with (
        cost_of_brokers(cluster) as cost,
        running_client("steady_produce", leader.port, PROBE, PROBE_EACH_MS) as probe,
    ):
        gigabytes = produce(cluster, seconds)
    value = cost.cpu_seconds / gigabytes
    yield Sample(case=case, metric="broker CPU per replicated GB", unit="s/GB", value=value)
    yield from _latencies(case, probe.numbers)


def _small_requests(cluster: Cluster, seconds: float) -> Iterator[Sample]:
    """Measures an otherwise idle cluster with one producer of single records."""
    case = f"{1000 / SMALL_EACH_MS:g} requests/s of one record"
    leader = cluster.nodes[rotated(1)[0][0]]
    with (
        cost_of_brokers(cluster) as cost,
        running_client("steady_produce", leader.port, PROBE, SMALL_EACH_MS) as client,
    ):
        time.sleep(seconds)
    requests = client.numbers["requests"]
    value = cost.cpu_seconds / requests * 1e6
    yield Sample(case=case, metric="broker CPU per request", unit="us", value=value)
    yield from _latencies(case, client.numbers)


def _latencies(case: str, numbers: dict[str, float]) -> Iterator[Sample]:
    for metric in ("p50", "p99"):
        value = numbers[f"{metric}_us"] / 1000
        yield Sample(case=case, metric=f"acks=all {metric}", unit="ms", value=value)


WORKLOAD = LifecycleWorkload(name="replication", run=run)
