"""The work that is measured, one module for each kind."""

from benchmarks.workloads import (
    compaction,
    group_rebalance,
    idle_connections,
    java_tools,
    librdkafka,
    many_groups,
    many_partitions,
    offset_commits,
    one_record,
    restart,
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
    spark.WORKLOAD,
    group_rebalance.WORKLOAD,
    many_groups.WORKLOAD,
    start.WORKLOAD,
    restart.WORKLOAD,
    idle_connections.WORKLOAD,
    many_partitions.WORKLOAD,
)
