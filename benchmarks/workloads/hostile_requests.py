"""Produce requests with one record while another connection sends very large requests."""

import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.client_process import running_client
from benchmarks.measurement import Sample
from benchmarks.rivals import Broker
from benchmarks.topics import topic
from benchmarks.workloads.kinds import Scale, ServingWorkload

PRODUCE_EACH_MS = 20
"""Long enough to keep the schedule, so that no backlog is measured."""
READY_SECONDS = 120.0
_POLL_SECONDS = 0.05

# The first of each kind exceeds socket.request.max.elements.
REQUESTS = (
    ("Metadata with 900,000 names", "metadata-names", 900_000),
    ("Metadata with 190,000 names", "metadata-names", 190_000),
    ("Fetch with 900,000 entries", "fetch-entries", 900_000),
    ("Fetch with 190,000 entries", "fetch-entries", 190_000),
    ("ListOffsets with 400,000 topics", "list-offsets-topics", 400_000),
    ("ListOffsets with 95,000 topics", "list-offsets-topics", 95_000),
    ("OffsetCommit with 300,000 partitions", "commit-partitions", 300_000),
    ("OffsetCommit with 190,000 partitions", "commit-partitions", 190_000),
    ("creating and deleting 3,000 partitions", "create-partitions", 3_000),
    ("creating and deleting 300 topics", "create-topics", 300),
    ("growing a topic by 2,000, deleting 5,300 partitions", "grow-topic", 5_300),
    ("ListOffsets by time in a batch of 3 million", "lookup-by-time", 3_000_000),
)
SETTINGS = {"max.message.bytes": 64 << 20}


class NotReadyError(RuntimeError):
    """The hostile client did not send its requests in time."""


def run(broker: Broker, scale: Scale) -> Iterator[Sample]:
    """Measures Produce without the other connection first, as the baseline."""
    with (
        topic(broker, partitions=1) as bystander,
        running_client("steady_produce", broker.port, bystander, PRODUCE_EACH_MS) as client,
    ):
        time.sleep(scale.hostile_seconds)
    yield from _latencies("alone", client.numbers)
    for case, kind, count in REQUESTS:
        yield from _measure(broker, case, kind, count, scale.hostile_seconds)


def _measure(broker: Broker, case: str, kind: str, count: int, seconds: float) -> Iterator[Sample]:
    with (
        tempfile.TemporaryDirectory() as directory,
        topic(broker, partitions=1) as bystander,
        topic(broker, partitions=1, settings=SETTINGS) as target,
    ):
        ready = Path(directory) / "ready"
        with running_client("hostile_request", broker.port, target, kind, count, ready) as hostile:
            _wait_for(ready)
            with running_client(
                "steady_produce", broker.port, bystander, PRODUCE_EACH_MS
            ) as client:
                time.sleep(seconds)
    yield from _latencies(case, client.numbers)
    for metric in ("answered", "refused"):
        yield Sample(case=case, metric=metric, unit="requests", value=hostile.numbers[metric])


def _latencies(case: str, client: Mapping[str, float]) -> Iterator[Sample]:
    for metric, key in (("p50", "p50_us"), ("p99", "p99_us"), ("max", "max_us")):
        yield Sample(case=case, metric=metric, unit="ms", value=client[key] / 1000)


def _wait_for(ready: Path) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while not ready.exists():
        if time.monotonic() > deadline:
            raise NotReadyError(f"no requests after {READY_SECONDS:g} s")
        time.sleep(_POLL_SECONDS)


WORKLOAD = ServingWorkload(name="hostile-requests", run=run)
