"""Clusters of three brokers of one kind under a controller of Apache Kafka, one after the other.

Both kinds have the same controller process with the same settings, which is not measured.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from benchmarks import process_usage
from benchmarks.measurement import PYKBROKER
from benchmarks.process_usage import Cost
from compat.apache import ApacheKafka, ApacheTools
from compat.apache.apache_kafka import SERVER_JVM
from compat.broker_process import BrokerProcess
from compat.cluster import Cluster, Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from benchmarks.rivals import Rival

BROKERS = (1, 2, 3)
HEAP = "1g"  # of Apache's start script

# The values that both brokers are shipped with, instead of the short ones of tests.
_SHIPPED = {
    "broker.heartbeat.interval.ms": 2000,
    "replica.lag.time.max.ms": 30_000,
    "replica.fetch.wait.max.ms": 500,
    "log.segment.delete.delay.ms": 0,
}
_SHIPPED_CONTROLLER = {"broker.session.timeout.ms": 9000}


@contextmanager
def running_cluster(
    rival: Rival,
    directory: Path,
    *,
    settings: Mapping[str, object] | None = None,
    controller_settings: Mapping[str, object] | None = None,
    python_of: Callable[[int], Sequence[str]] | None = None,
) -> Iterator[Cluster]:
    """Starts a controller and three brokers; kills them at the end.

    `python_of` returns another Python command for a broker of PyKBroker, such as a profiler.
    """
    kind = Kind.OWN if rival.name == PYKBROKER else Kind.APACHE
    cluster = Cluster(
        directory,
        dict.fromkeys(BROKERS, kind),
        tools=ApacheTools.installed(),
        settings={**_SHIPPED, **(settings or {})},
        controller_settings={**_SHIPPED_CONTROLLER, **(controller_settings or {})},
    )
    for node_id, node in cluster.nodes.items():
        if isinstance(node, ApacheKafka):
            node.jvm = [f"-Xms{HEAP}", f"-Xmx{HEAP}", *SERVER_JVM]
        elif isinstance(node, BrokerProcess) and python_of is not None:
            node.python = tuple(python_of(node_id))
    with cluster:
        yield cluster


@contextmanager
def cost_of_brokers(cluster: Cluster) -> Iterator[Cost]:
    """Measures the CPU time of all brokers, without the controller."""
    cost = Cost()
    before = _cpu_seconds(cluster)
    yield cost
    cost.cpu_seconds = _cpu_seconds(cluster) - before


def _cpu_seconds(cluster: Cluster) -> float:
    return sum(process_usage.cpu_seconds(node.pid) for node in cluster.nodes.values())


def rotated(partitions: int) -> dict[int, tuple[int, ...]]:
    """Returns replicas of each partition on all brokers; every broker leads a third."""
    count = len(BROKERS)
    return {
        index: tuple(BROKERS[(index + offset) % count] for offset in range(count))
        for index in range(partitions)
    }
