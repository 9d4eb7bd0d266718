"""The work that is measured, one module for each kind."""

from benchmarks.workloads import (
    idle_connections,
    java_tools,
    librdkafka,
    many_partitions,
    one_record,
    restart,
    start,
)
from benchmarks.workloads.kinds import Workload

WORKLOADS: tuple[Workload, ...] = (
    librdkafka.WORKLOAD,
    java_tools.WORKLOAD,
    one_record.WORKLOAD,
    start.WORKLOAD,
    restart.WORKLOAD,
    idle_connections.WORKLOAD,
    many_partitions.WORKLOAD,
)
