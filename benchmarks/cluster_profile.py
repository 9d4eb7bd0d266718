"""CPU profile of three brokers under replication: `python -m benchmarks.cluster_profile`.

The load is that of `replication`: each broker leads a third of the partitions and follows the
others. The profiler makes each call more expensive, so only the order of the rows is meaningful.
"""

import argparse
import io
import os
import pstats
import signal
import sys
import tempfile
from pathlib import Path

from benchmarks.clusters import cost_of_brokers, rotated, running_cluster
from benchmarks.measurement import PYKBROKER
from benchmarks.rivals import as_installed, rivals
from benchmarks.workloads.replication import LOAD, MIN_IN_SYNC, PARTITIONS, produce

CHECKOUT = Path(__file__).parents[1]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster_profile")
    parser.add_argument(
        "--seconds", type=float, default=15.0, help="duration of the load (default 15)"
    )
    parser.add_argument("--rows", type=int, default=25, help="functions to show (default 25)")
    parser.add_argument("--by", choices=("tottime", "cumtime"), default="tottime")
    asked = parser.parse_args()
    as_installed()
    with tempfile.TemporaryDirectory(prefix="pykbroker-profile-") as scratch:
        files = profile(Path(scratch), asked.seconds)
        print(table(files, asked.by, asked.rows))


def profile(scratch: Path, seconds: float) -> list[str]:
    """Runs the load; returns one file of statistics for each broker."""
    with running_cluster(
        rivals()[PYKBROKER], scratch / "cluster", python_of=lambda it: command_of(scratch, it)
    ) as cluster:
        cluster.create_topic(LOAD, rotated(PARTITIONS), min_insync_replicas=MIN_IN_SYNC)
        for node in cluster.nodes.values():
            os.kill(node.pid, signal.SIGUSR1)
        with cost_of_brokers(cluster) as cost:
            gigabytes = produce(cluster, seconds)
        print(f"{cost.cpu_seconds / gigabytes:.3g} s of CPU per replicated GB, with the profiler\n")
        for node in cluster.nodes.values():
            node.stop()
        return [str(file_of(scratch, node_id)) for node_id in cluster.nodes]


def command_of(scratch: Path, node_id: int) -> tuple[str, ...]:
    return sys.executable, "-m", "benchmarks.profiled", str(file_of(scratch, node_id))


def file_of(scratch: Path, node_id: int) -> Path:
    return scratch / f"{node_id}.profile"


def table(files: list[str], order: str, rows: int) -> str:
    text = io.StringIO()
    pstats.Stats(*files, stream=text).sort_stats(order).print_stats(rows)
    lines = text.getvalue().replace(f"{CHECKOUT}/", "").splitlines()
    return "\n".join(line for line in lines if line.strip())


if __name__ == "__main__":
    main()
