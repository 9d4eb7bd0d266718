"""A socket client that produces one record every few milliseconds until its input ends."""

from __future__ import annotations

import argparse
import gc
import json
import select
import socket
import sys
import time
from array import array

from benchmarks.clients.pipelined_connections import quantile
from benchmarks.wire import produce_frames, receive_frame

RECORD_SIZE = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("topic")
    parser.add_argument("each_ms", type=float)
    asked = parser.parse_args()
    frames = produce_frames(asked.topic, 0, b"x" * RECORD_SIZE)
    with socket.create_connection(("127.0.0.1", asked.port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        gc.disable()
        latencies = measure(connection, frames.request, frames.error_position, asked.each_ms / 1000)
    print(json.dumps(numbers(latencies)))


def measure(
    connection: socket.socket, request: bytes, error_position: int, each_seconds: float
) -> array[int]:
    """Measures from the scheduled times, so delays by an earlier late response count."""
    latencies = array("q")
    due = time.perf_counter()
    while not input_has_ended(due - time.perf_counter()):
        began = time.perf_counter()
        if latencies and latencies[-1] > each_seconds * 1e9:
            began = min(began, due)
        connection.sendall(request)
        answer = receive_frame(connection)
        latencies.append(int((time.perf_counter() - began) * 1e9))
        if answer[error_position : error_position + 2] != b"\0\0":
            raise SystemExit("request failed")
        due += each_seconds
    return latencies


def input_has_ended(wait_seconds: float) -> bool:
    ready, _, _ = select.select([sys.stdin], [], [], max(wait_seconds, 0))
    return bool(ready)


def numbers(latencies: array[int]) -> dict[str, float]:
    ascending = sorted(latencies)
    return {
        "requests": len(ascending),
        "p50_us": quantile(ascending, 0.5),
        "p99_us": quantile(ascending, 0.99),
        "p999_us": quantile(ascending, 0.999),
        "max_us": ascending[-1] / 1000,
    }


if __name__ == "__main__":
    main()
