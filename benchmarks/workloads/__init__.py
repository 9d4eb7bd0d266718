"""The workloads of the benchmark, one per module."""

from benchmarks.workloads import (
    compaction,
    flushing,
    group_rebalance,
    hostile_requests,
    idle_connections,
    java_tools,
    librdkafka,
    many_groups,
    many_partitions,
    offset_commits,
    one_record,
    restart,
    slow_disk,
    spark,
    start,
    transactions,
)
from benchmarks.workloads.kinds import Workload

WORKLOADS: tuple[Workload, ...] = (
    librdkafka.WORKLOAD,
    java_tools.WORKLOAD,
    one_record.WORKLOAD,
    offset_commits.WORKLOAD,
    transactions.WORKLOAD,
    compaction.WORKLOAD,
    flushing.WORKLOAD,
    spark.WORKLOAD,
    group_rebalance.WORKLOAD,
    many_groups.WORKLOAD,
    start.WORKLOAD,
    restart.WORKLOAD,
    slow_disk.WORKLOAD,
    idle_connections.WORKLOAD,
    hostile_requests.WORKLOAD,
    many_partitions.WORKLOAD,
)
