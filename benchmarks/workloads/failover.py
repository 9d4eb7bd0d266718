"""kill -9 of a leader: time until a producer with acks=all gets acknowledgements again."""

from __future__ import annotations

import shutil
import socket
import time
from contextlib import ExitStack
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.client_process import running_client
from benchmarks.clusters import rotated, running_cluster
from benchmarks.measurement import Sample
from benchmarks.wire import produce_frames, receive_frame
from benchmarks.workloads.kinds import LifecycleWorkload
from pykbroker.metadata.batches import records_of
from pykbroker_protocol.metadata.topics import PartitionChangeRecord
from pykbroker_protocol.records.batch import RecordBatch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from benchmarks.rivals import Rival
    from benchmarks.workloads.kinds import Scale
    from compat.cluster import Cluster

TOPIC = "failover"
# Short timeouts, so that the phase of the heartbeats at the kill changes little.
TIMEOUTS = {"broker.heartbeat.interval.ms": 300}
CONTROLLER_TIMEOUTS = {"broker.session.timeout.ms": 3000}
BEFORE_SECONDS, AFTER_SECONDS = 1.0, 3.0
RECORD = b"x" * 100
EACH_SECONDS = 0.005
ACCEPT_SECONDS_MAX = 60.0


def run(rival: Rival, scratch: Path, scale: Scale) -> Iterator[Sample]:
    shutil.rmtree(scratch, ignore_errors=True)
    with running_cluster(
        rival, scratch, settings=TIMEOUTS, controller_settings=CONTROLLER_TIMEOUTS
    ) as cluster:
        cluster.create_topic(TOPIC, rotated(1), min_insync_replicas=2)
        found = [_kill_leader(cluster) for _ in range(scale.kills)]
    case = f"session timeout {CONTROLLER_TIMEOUTS['broker.session.timeout.ms'] / 1000:g} s"
    for metric, seconds in (
        ("kill -9 to acknowledgement", [it.acknowledged - it.killed for it in found]),
        ("kill -9 to first accepted record", [it.accepted - it.killed for it in found]),
        ("election to first accepted record", [it.accepted - it.elected for it in found]),
    ):
        yield Sample(case=case, metric=metric, unit="s", value=median(seconds))


class Failover(NamedTuple):
    """Times of one failover, in seconds since 1970."""

    killed: float
    elected: float
    accepted: float
    """The first acknowledgement of a client that requests it every few milliseconds."""
    acknowledged: float
    """The first acknowledgement of librdkafka, which waits between its attempts."""


def _kill_leader(cluster: Cluster) -> Failover:
    leader = cluster.partition(TOPIC).leader
    with running_client("failover_producer", cluster.bootstrap, TOPIC) as producer:
        time.sleep(BEFORE_SECONDS)
        killed = time.time()
        cluster.nodes[leader].kill()
        accepted = _seconds_of_acceptance(
            [node.port for node_id, node in cluster.nodes.items() if node_id != leader]
        )
        time.sleep(AFTER_SECONDS)
    elected = _election_seconds(cluster, after=killed)
    cluster.bring_back()
    cluster.wait_until_in_sync(TOPIC)
    acknowledged = producer.numbers["ended"]
    if not killed <= elected <= min(accepted, acknowledged):
        raise RuntimeError("the producer was not interrupted by the kill")
    return Failover(killed, elected, accepted, acknowledged)


def _seconds_of_acceptance(ports: Sequence[int]) -> float:
    """Produces a record with acks=all to these brokers in turn until one succeeds."""
    frames = produce_frames(TOPIC, 0, RECORD)
    with ExitStack() as stack:
        connections = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), ACCEPT_SECONDS_MAX))
            for port in ports
        ]
        deadline = time.monotonic() + ACCEPT_SECONDS_MAX
        while time.monotonic() < deadline:
            for connection in connections:
                connection.sendall(frames.request)
                answer = receive_frame(connection)
                if answer[frames.error_position : frames.error_position + 2] == b"\0\0":
                    return time.time()
            time.sleep(EACH_SECONDS)
    raise RuntimeError(f"no broker accepted a record within {ACCEPT_SECONDS_MAX:g} s")


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
