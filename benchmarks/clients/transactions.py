"""A librdkafka producer that writes consecutive transactions and aborts some of them."""

import argparse
import gc
import json
import time
from array import array

from confluent_kafka import Producer

from benchmarks.clients.pipelined_connections import quantile

_TIMEOUT_SECONDS = 60.0
_WARM_UP = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bootstrap")
    parser.add_argument("topic")
    parser.add_argument("transactions", type=int)
    parser.add_argument("records_each", type=int)
    parser.add_argument("record_size", type=int)
    parser.add_argument("abort_each", type=int, help="every n-th is aborted; 0: none")
    asked = parser.parse_args()
    producer = Producer(
        {
            "bootstrap.servers": asked.bootstrap,
            "transactional.id": f"bench-{asked.topic}-{asked.records_each}",
            "linger.ms": 0 if asked.records_each == 1 else 1,
        }
    )
    producer.init_transactions(_TIMEOUT_SECONDS)
    batch = [{"value": b"x" * asked.record_size}] * asked.records_each
    for _ in range(_WARM_UP):
        write_transaction(producer, asked.topic, batch, is_aborted=True)
    gc.disable()
    latencies = array("q")
    began, cpu_began = time.perf_counter(), time.process_time()
    for number in range(1, asked.transactions + 1):
        is_aborted = asked.abort_each > 0 and number % asked.abort_each == 0
        latencies.append(write_transaction(producer, asked.topic, batch, is_aborted=is_aborted))
    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu_began
    ascending = sorted(latencies)
    numbers = {
        "seconds": seconds,
        "transactions_per_second": asked.transactions / seconds,
        "p50_us": quantile(ascending, 0.5),
        "p99_us": quantile(ascending, 0.99),
        "client_cpu_seconds": cpu_seconds,
    }
    print(json.dumps(numbers))


def write_transaction(
    producer: Producer, topic: str, batch: list[dict[str, bytes]], *, is_aborted: bool
) -> int:
    """Runs a transaction; returns nanoseconds from its begin until the commit or abort returned."""
    began = time.perf_counter_ns()
    producer.begin_transaction()
    queued = producer.produce_batch(topic, batch, partition=0)
    if queued < len(batch):
        raise SystemExit(f"only {queued} of {len(batch)} records found room")
    if is_aborted:
        producer.flush(_TIMEOUT_SECONDS)  # so that the log contains aborted records
        producer.abort_transaction(_TIMEOUT_SECONDS)
    else:
        producer.commit_transaction(_TIMEOUT_SECONDS)
    return time.perf_counter_ns() - began


if __name__ == "__main__":
    main()
