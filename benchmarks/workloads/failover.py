"""kill -9 of a leader: time until a producer with acks=all gets acknowledgements again."""

from __future__ import annotations

import shutil
import time
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.client_process import running_client
from benchmarks.clusters import rotated, running_cluster
from benchmarks.measurement import Sample
from benchmarks.workloads.kinds import LifecycleWorkload
from pykbroker.metadata.batches import records_of
from pykbroker_protocol.metadata.topics import PartitionChangeRecord
from pykbroker_protocol.records.batch import RecordBatch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from benchmarks.rivals import Rival
    from benchmarks.workloads.kinds import Scale
    from compat.cluster import Cluster

TOPIC = "failover"
# Short timeouts, so that the phase of the heartbeats at the kill changes little.
TIMEOUTS = {"broker.heartbeat.interval.ms": 300}
CONTROLLER_TIMEOUTS = {"broker.session.timeout.ms": 3000}
BEFORE_SECONDS, AFTER_SECONDS = 1.0, 2.0


def run(rival: Rival, scratch: Path, scale: Scale) -> Iterator[Sample]:
    shutil.rmtree(scratch, ignore_errors=True)
    with running_cluster(
        rival, scratch, settings=TIMEOUTS, controller_settings=CONTROLLER_TIMEOUTS
    ) as cluster:
        cluster.create_topic(TOPIC, rotated(1), min_insync_replicas=2)
        found = [_kill_leader(cluster) for _ in range(scale.kills)]
    case = f"session timeout {CONTROLLER_TIMEOUTS['broker.session.timeout.ms'] / 1000:g} s"
    for metric, seconds in (
        ("kill -9 to acknowledgement", [total for total, _ in found]),
        ("election to acknowledgement", [after for _, after in found]),
    ):
        yield Sample(case=case, metric=metric, unit="s", value=median(seconds))


def _kill_leader(cluster: Cluster) -> tuple[float, float]:
    """Returns the seconds from the kill and from the election to the next acknowledgement."""
    leader = cluster.partition(TOPIC).leader
    with running_client("failover_producer", cluster.bootstrap, TOPIC) as producer:
        time.sleep(BEFORE_SECONDS)
        killed = time.time()
        cluster.nodes[leader].kill()
        cluster.wait_for("another leader", lambda: cluster.partition(TOPIC).leader != leader)
        time.sleep(AFTER_SECONDS)
    elected = _election_seconds(cluster, after=killed)
    cluster.bring_back()
    cluster.wait_until_in_sync(TOPIC)
    acknowledged = producer.numbers["ended"]
    if not elected <= acknowledged:
        raise RuntimeError("the producer was not interrupted by the kill")
    return acknowledged - killed, acknowledged - elected


def _election_seconds(cluster: Cluster, *, after: float) -> float:
    """Returns the time of the first leader change of the topic, as the controller logged it."""
    topic_id = cluster.image().topics[TOPIC].id
    buffer = cluster.controller.metadata_log.read_bytes()
    position = 0
    while position < len(buffer):
        batch = RecordBatch.parse(buffer, position)
        position += batch.size_bytes
        seconds = batch.max_timestamp / 1000
        if seconds < after:
            continue
        for record in records_of(batch):
            if (
                isinstance(record, PartitionChangeRecord)
                and record.topic_id == topic_id
                and record.leader >= 0
            ):
                return seconds
    raise RuntimeError("no election in the metadata log")


WORKLOAD = LifecycleWorkload(name="failover", run=run)
