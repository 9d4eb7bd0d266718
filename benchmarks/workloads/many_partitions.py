"""Thousands of partitions: creation, memory and start."""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import wire
from benchmarks.measurement import Sample
from benchmarks.rivals import Broker, Rival, ended_after, seconds_until
from benchmarks.topics import create
from benchmarks.workloads.kinds import LifecycleWorkload, Scale, memory_of

TOPICS = 20


def run(rival: Rival, scratch: Path, scale: Scale) -> Iterator[Sample]:
    shutil.rmtree(scratch, ignore_errors=True)
    with ended_after(rival.make(scratch / "data")) as broker:
        broker.start()
        yield from _measure(broker, scale)


def _measure(broker: Broker, scale: Scale) -> Iterator[Sample]:
    case = f"{scale.partitions} partitions"
    began = time.perf_counter()
    names = [f"topic-{number}" for number in range(TOPICS)]
    create(broker, names, partitions=scale.partitions // TOPICS)
    created = time.perf_counter() - began
    yield Sample(case=case, metric="create", unit="s", value=created)
    yield from memory_of(broker, f"{case}, created")
    broker.stop()
    seconds = seconds_until(broker, lambda: wire.leaders(broker.port, names) == scale.partitions)
    yield Sample(case=case, metric="start to Metadata of all", unit="s", value=seconds)
    yield from memory_of(broker, f"{case}, restarted")


WORKLOAD = LifecycleWorkload(name="many-partitions", run=run)
