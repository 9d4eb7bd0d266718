"""Spark reads a topic of small records as batch and stream, and writes a topic."""

from collections.abc import Iterator

from benchmarks.client_process import run_client
from benchmarks.measurement import Sample
from benchmarks.rivals import Broker
from benchmarks.topics import ensure, topic
from benchmarks.workloads.kinds import Scale, ServingWorkload

RECORD_BYTES, PARTITIONS, TRUCKS = 100, 10, 10_000
SOURCE = "spark-reads-this"
WRITTEN_OF_READ = 10  # Spark writes a tenth of the records it reads
CASES = {
    "count_default": "count, default options",
    "count_tuned": "count, tuned options",
    "stream_default": "stream to noop, default options",
    "write": "batch write",
}
METRICS = {"wall": "wall", "broker_cpu": "broker CPU", "spark_cpu": "Spark CPU"}


def run(broker: Broker, scale: Scale) -> Iterator[Sample]:
    records = scale.spark_records
    _fill(broker, records)
    with topic(broker, partitions=PARTITIONS) as target:
        amounts = (records, records // WRITTEN_OF_READ)
        client = run_client("spark", broker.bootstrap, broker.pid, SOURCE, target, *amounts)
    for case, title in CASES.items():
        for metric, name in METRICS.items():
            value = client[f"{case}_{metric}_seconds"]
            yield Sample(case=title, metric=name, unit="s", value=value)


def _fill(broker: Broker, records: int) -> None:
    """Writes the same records to both brokers, once for all rounds."""
    if ensure(broker, SOURCE, partitions=PARTITIONS):
        amounts = (records, TRUCKS, RECORD_BYTES, PARTITIONS)
        run_client("keyed_records", broker.bootstrap, SOURCE, *amounts)


WORKLOAD = ServingWorkload(name="spark", run=run)
