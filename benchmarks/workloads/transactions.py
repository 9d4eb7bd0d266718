"""Small and large transactions of one producer, and read_committed consumers."""

from collections.abc import Iterator

from benchmarks.client_process import run_client
from benchmarks.measurement import Sample
from benchmarks.rivals import Broker
from benchmarks.topics import topic
from benchmarks.workloads.kinds import Scale, ServingWorkload, cost_of

RECORD_BYTES = 100
RECORDS_EACH = (1, 100, 1000)
# One in ten of the transactions that are read is aborted.
READ_RECORDS_EACH, ABORT_EACH = 500, 10
NEVER = 0


def run(broker: Broker, scale: Scale) -> Iterator[Sample]:
    for records_each in RECORDS_EACH:
        with topic(broker, partitions=1) as name:
            yield from _write(broker, name, scale.transactions, records_each)
    with topic(broker, partitions=1) as name:
        yield from _read_committed(broker, name, scale.committed_records)


def _write(broker: Broker, name: str, transactions: int, records_each: int) -> Iterator[Sample]:
    amount = (transactions, records_each, RECORD_BYTES, NEVER)
    with cost_of(broker) as cost:
        client = run_client("transactions", broker.bootstrap, name, *amount)
    case = f"{records_each} record{'s' * (records_each > 1)} each"
    cpu_us = cost.cpu_seconds / transactions * 1e6
    for metric, unit, value in (
        ("transactions", "transactions/s", client["transactions_per_second"]),
        ("p50", "us", client["p50_us"]),
        ("p99", "us", client["p99_us"]),
        ("broker CPU per transaction", "us", cpu_us),
        ("client busy", "cores", client["client_cpu_seconds"] / client["seconds"]),
    ):
        yield Sample(case=case, metric=metric, unit=unit, value=value)


def _read_committed(broker: Broker, name: str, records: int) -> Iterator[Sample]:
    """librdkafka's consumer uses read_committed by default."""
    transactions = records // READ_RECORDS_EACH
    amount = (transactions, READ_RECORDS_EACH, RECORD_BYTES, ABORT_EACH)
    run_client("transactions", broker.bootstrap, name, *amount)
    committed = (transactions - transactions // ABORT_EACH) * READ_RECORDS_EACH
    with cost_of(broker) as cost:
        client = run_client(
            "librdkafka", "consume", broker.bootstrap, name, 1, committed, RECORD_BYTES
        )
    case = f"read committed, 1 of {ABORT_EACH} aborted"
    gigabytes = records * RECORD_BYTES / 1e9
    for metric, unit, value in (
        ("throughput", "records/s", client["records_per_second"]),
        ("broker CPU per GB", "s/GB", cost.cpu_seconds / gigabytes),
        ("client busy", "cores", client["client_cpu_seconds"] / client["seconds"]),
    ):
        yield Sample(case=case, metric=metric, unit=unit, value=value)


WORKLOAD = ServingWorkload(name="transactions", run=run)
