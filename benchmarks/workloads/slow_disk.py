"""Produce requests with one record on a slow disk, during reads of old records and flushes."""

import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.client_process import run_client, running_client
from benchmarks.measurement import Sample
from benchmarks.rivals import Broker, Rival, ended_after
from benchmarks.slow_disk import SlowDisk, slow_disk
from benchmarks.topics import create
from benchmarks.workloads.kinds import LifecycleWorkload, Scale

DISK_BYTES = 4 << 30
BYTES_PER_SECOND = 4 << 20
OPERATIONS_PER_SECOND = 100
RECORD_BYTES = 1000
PRODUCE_EACH_MS = 2
FLUSHER_EACH_MS = 5
WARM_UP_SECONDS = 3.0
BYSTANDER, COLD, FLUSHED = "bystander", "cold", "flushed"


def run(rival: Rival, scratch: Path, scale: Scale) -> Iterator[Sample]:
    with slow_disk(scratch, size_bytes=DISK_BYTES) as disk:
        data = disk.path / "data"
        with ended_after(rival.make(data)) as broker:
            _fill(broker, scale)
        disk.drop_cache()
        with ended_after(rival.make(data)) as broker:
            broker.start()
            yield from _measure(broker, disk, scale.slow_disk_seconds)


def _fill(broker: Broker, scale: Scale) -> None:
    broker.start()
    create(broker, [BYSTANDER, COLD], partitions=1)
    create(broker, [FLUSHED], partitions=1, settings={"flush.messages": 1})
    records = scale.cold_bytes // RECORD_BYTES
    run_client("librdkafka", "produce", broker.bootstrap, COLD, 1, records, RECORD_BYTES)


def _measure(broker: Broker, disk: SlowDisk, seconds: float) -> Iterator[Sample]:
    _bystander(broker, WARM_UP_SECONDS)
    with disk.slowed_down(
        broker.pid,
        bytes_per_second=BYTES_PER_SECOND,
        operations_per_second=OPERATIONS_PER_SECOND,
    ):
        yield from _samples("a produce alone", _bystander(broker, seconds))
        with running_client("steady_produce", broker.port, FLUSHED, FLUSHER_EACH_MS) as flusher:
            beside_flusher = _bystander(broker, seconds)
        yield from _samples("a produce beside a flusher", beside_flusher)
        yield from _samples("the flusher", flusher.numbers)
        with running_client("cold_reader", broker.bootstrap, COLD) as reader:
            beside_reader = _bystander(broker, seconds)
        yield from _samples("a produce beside a cold reader", beside_reader)
        rate = reader.numbers["bytes"] / seconds / 1e6
        yield Sample(case="the cold reader", metric="throughput", unit="MB/s", value=rate)


def _bystander(broker: Broker, seconds: float) -> Mapping[str, float]:
    with running_client("steady_produce", broker.port, BYSTANDER, PRODUCE_EACH_MS) as client:
        time.sleep(seconds)
    return client.numbers


def _samples(case: str, client: Mapping[str, float]) -> Iterator[Sample]:
    for metric, key in (("p50", "p50_us"), ("p99", "p99_us"), ("max", "max_us")):
        yield Sample(case=case, metric=metric, unit="us", value=client[key])


WORKLOAD = LifecycleWorkload(name="slow-disk", run=run)
