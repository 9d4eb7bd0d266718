"""Memory and CPU of members of an idle cluster; each has a replica of all partitions."""

from __future__ import annotations

import shutil
import time
from statistics import mean
from typing import TYPE_CHECKING

from benchmarks.clusters import BROKERS, cost_of_brokers, rotated, running_cluster
from benchmarks.measurement import Sample
from benchmarks.workloads.kinds import LifecycleWorkload, memory_of_process

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from benchmarks.rivals import Rival
    from benchmarks.workloads.kinds import Scale


def run(rival: Rival, scratch: Path, scale: Scale) -> Iterator[Sample]:
    shutil.rmtree(scratch, ignore_errors=True)
    with running_cluster(rival, scratch) as cluster:
        case = f"{scale.member_partitions} partitions, idle"
        cluster.create_topic("many", rotated(scale.member_partitions))
        time.sleep(scale.warm_up_seconds)
        with cost_of_brokers(cluster) as cost:
            time.sleep(scale.cluster_seconds)
        cores = cost.cpu_seconds / scale.cluster_seconds / len(BROKERS)
        yield Sample(case=case, metric="CPU of one broker", unit="cores", value=cores)
        memory = [list(memory_of_process(node.pid, case)) for node in cluster.nodes.values()]
        for samples in zip(*memory, strict=True):
            first = samples[0]
            value = mean(it.value for it in samples)
            yield Sample(case=case, metric=first.metric, unit=first.unit, value=value)


WORKLOAD = LifecycleWorkload(name="member-memory", run=run)
