"""librdkafka produces and consumes, small and large records, one partition and ten."""

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.client_process import run_client
from benchmarks.measurement import Sample
from benchmarks.rivals import Broker
from benchmarks.topics import topic
from benchmarks.workloads.kinds import Scale, ServingWorkload, cost_of, memory_of

SMALL_BYTES, LARGE_BYTES = 100, 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Number and size of records, and number of partitions."""

    partitions: int
    records: int
    size: int

    @property
    def gigabytes(self) -> float:
        return self.records * self.size / 1e9

    def __str__(self) -> str:
        return f"{self.size} B, {self.partitions} partition{'s' * (self.partitions > 1)}"


def run(broker: Broker, scale: Scale) -> Iterator[Sample]:
    for size, records in ((SMALL_BYTES, scale.small_records), (LARGE_BYTES, scale.large_records)):
        for partitions in (1, 10):
            load = Load(partitions=partitions, records=records, size=size)
            with topic(broker, partitions=partitions) as name:
                yield from _measure("produce", broker, name, load)
                yield from _measure("consume", broker, name, load)
    yield from memory_of(broker, "after all of it")


def _measure(work: str, broker: Broker, topic_name: str, load: Load) -> Iterator[Sample]:
    amount = (load.partitions, load.records, load.size)
    with cost_of(broker) as cost:
        client = run_client("librdkafka", work, broker.bootstrap, topic_name, *amount)
    for metric, unit, value in (
        ("throughput", "records/s", client["records_per_second"]),
        ("broker CPU per GB", "s/GB", cost.cpu_seconds / load.gigabytes),
        ("client busy", "cores", client["client_cpu_seconds"] / client["seconds"]),
    ):
        yield Sample(case=f"{work} {load}", metric=metric, unit=unit, value=value)


WORKLOAD = ServingWorkload(name="librdkafka", run=run)
