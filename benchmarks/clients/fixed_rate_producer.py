"""A librdkafka producer with acks=all at a fixed rate; fails if the cluster does not keep up."""

import argparse
import json
import time

from confluent_kafka import Producer

TICK_SECONDS = 0.01
LATE_SECONDS_MAX = 5.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bootstrap")
    parser.add_argument("topic")
    parser.add_argument("partitions", type=int)
    parser.add_argument("records_per_second", type=int)
    parser.add_argument("record_size", type=int)
    parser.add_argument("seconds", type=float)
    print(json.dumps(produce(parser.parse_args())))


def produce(options: argparse.Namespace) -> dict[str, float]:
    producer = Producer(
        {
            "bootstrap.servers": options.bootstrap,
            "acks": "all",
            "linger.ms": 5,
            "queue.buffering.max.messages": 500_000,
            "delivery.report.only.error": True,  # a call per record would measure Python
            "on_delivery": _refuse_failure,
        }
    )
    producer.list_topics(options.topic, timeout=30)
    each_tick = max(1, round(options.records_per_second * TICK_SECONDS))
    batch = [{"value": b"x" * options.record_size}] * each_tick
    ticks = round(options.seconds / TICK_SECONDS)
    began, cpu_began = time.perf_counter(), time.process_time()
    for tick in range(ticks):
        producer.produce_batch(options.topic, list(batch), partition=tick % options.partitions)
        producer.poll(0)
        if (early := began + (tick + 1) * TICK_SECONDS - time.perf_counter()) > 0:
            time.sleep(early)
    if left := producer.flush(LATE_SECONDS_MAX):
        raise SystemExit(f"the cluster is too slow: {left} records were not acknowledged in time")
    elapsed = time.perf_counter() - began
    if elapsed > options.seconds + LATE_SECONDS_MAX:
        raise SystemExit(f"the rate was not reached: {elapsed:.1f} s for {options.seconds:g} s")
    return {
        "seconds": elapsed,
        "records": ticks * each_tick,
        "client_cpu_seconds": time.process_time() - cpu_began,
    }


def _refuse_failure(error: object, _message: object) -> None:
    if error is not None:
        raise SystemExit(f"record not delivered: {error}")


if __name__ == "__main__":
    main()
