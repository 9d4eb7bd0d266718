"""Compaction of a large log: its speed, and the latency of concurrent produce requests."""

import time
from collections.abc import Iterator, Mapping

from benchmarks.client_process import run_client, running_client
from benchmarks.measurement import Sample
from benchmarks.rivals import Broker
from benchmarks.topics import change, change_broker, topic
from benchmarks.workloads.kinds import Scale, ServingWorkload, cost_of

VALUE_BYTES = 200
RECORDS_PER_KEY = 5
SEGMENT_BYTES = 64 << 20
PRODUCE_EACH_MS = 2
ALONE_SECONDS = 5.0
# Poll interval of the cleaner; the default is 15 seconds.
LOOK_EACH_MS = 50
SETTLE_SECONDS = 2.0
TIMEOUT_SECONDS = 300.0
_CHECKPOINT = "cleaner-offset-checkpoint"
_POLL_SECONDS = 0.01


class NotCompactedError(RuntimeError):
    """The log cleaner did not finish in time."""


def run(broker: Broker, scale: Scale) -> Iterator[Sample]:
    change_broker(broker, {"log.cleaner.backoff.ms": LOOK_EACH_MS})
    with (
        topic(broker, partitions=1, settings={"segment.bytes": SEGMENT_BYTES}) as compacted,
        topic(broker, partitions=1) as beside,
    ):
        records = scale.compacted_records
        keys = records // RECORDS_PER_KEY
        run_client("keyed_records", broker.bootstrap, compacted, records, keys, VALUE_BYTES)
        time.sleep(SETTLE_SECONDS)
        with running_client("steady_produce", broker.port, beside, PRODUCE_EACH_MS) as client:
            time.sleep(ALONE_SECONDS)
        yield from _latencies("a produce alone", client.numbers)
        with (
            running_client("steady_produce", broker.port, beside, PRODUCE_EACH_MS) as client,
            cost_of(broker) as cost,
        ):
            size_bytes = _sealed_bytes(broker, compacted)
            seconds = _compact(broker, compacted)
        case = f"{VALUE_BYTES} B, {RECORDS_PER_KEY} records a key"
        for metric, unit, value in (
            ("compaction", "MB/s", size_bytes / seconds / 1e6),
            ("broker CPU per GB compacted", "s/GB", cost.cpu_seconds / size_bytes * 1e9),
        ):
            yield Sample(case=case, metric=metric, unit=unit, value=value)
        yield from _latencies("a produce during compaction", client.numbers)


def _compact(broker: Broker, name: str) -> float:
    """Enables compaction; returns the time until the cleaner has reached the active segment."""
    began = time.perf_counter()
    change(broker, name, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0.01})
    end_offset = max(_sizes_of_segments(broker, name))
    while _compacted_up_to(broker, name) < end_offset:
        if time.perf_counter() - began > TIMEOUT_SECONDS:
            raise NotCompactedError(f"{name} is not compacted up to {end_offset}")
        time.sleep(_POLL_SECONDS)
    return time.perf_counter() - began


def _sizes_of_segments(broker: Broker, name: str) -> dict[int, int]:
    """Returns the size of each segment by base offset."""
    logs = (broker.data_dir / f"{name}-0").glob("*.log")
    return {int(path.stem): path.stat().st_size for path in logs}


def _sealed_bytes(broker: Broker, name: str) -> int:
    sizes = _sizes_of_segments(broker, name)
    del sizes[max(sizes)]
    return sum(sizes.values())


def _compacted_up_to(broker: Broker, name: str) -> int:
    """Reads the offset from the cleaner checkpoint file, which both brokers write."""
    checkpoint = broker.data_dir / _CHECKPOINT
    for line in checkpoint.read_text().splitlines() if checkpoint.exists() else ():
        if line.startswith(f"{name} 0 "):
            return int(line.rpartition(" ")[2])
    return -1


def _latencies(case: str, client: Mapping[str, float]) -> Iterator[Sample]:
    for metric, key in (("p50", "p50_us"), ("p99", "p99_us"), ("p99.9", "p999_us")):
        yield Sample(case=case, metric=metric, unit="us", value=client[key])


WORKLOAD = ServingWorkload(name="compaction", run=run)
