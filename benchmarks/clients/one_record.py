"""A client of bare sockets that sends one-record Produce requests and times every answer."""

import argparse
import gc
import json
import select
import socket
import time
from array import array
from collections import deque

from benchmarks.wire import ProduceFrames, produce_frames, receive_frame

RECORD_SIZE = 100
_RECEIVE_BYTES = 1 << 16
_NANOSECONDS_PER_MICROSECOND = 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("topic")
    parser.add_argument("connections", type=int)
    parser.add_argument("depth", type=int)
    parser.add_argument("requests", type=int)
    asked = parser.parse_args()
    each = asked.requests // asked.connections
    lanes = [Lane(asked.port, asked.topic, n, asked.depth, each) for n in range(asked.connections)]
    gc.collect()
    gc.disable()
    began, cpu_began = time.perf_counter(), time.process_time()
    if len(lanes) == 1:
        run_one(lanes[0])
    else:
        run_all(lanes)
    elapsed, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu_began
    print(json.dumps(numbers(lanes, elapsed, cpu_seconds)))


class Lane:
    """One connection that keeps a number of requests in flight."""

    def __init__(self, port: int, topic: str, partition: int, depth: int, requests: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.frames = produce_frames(topic, partition, b"x" * RECORD_SIZE)
        self.first_offset, self.answer_size = self._try_out(self.frames)
        self.bursts = [self.frames.request * count for count in range(depth + 1)]
        self.depth = depth
        self.unsent = requests
        self.unanswered = requests
        self.sent_at: deque[int] = deque()
        self.latencies = array("q")
        self.received = bytearray()

    def _try_out(self, frames: ProduceFrames) -> tuple[int, int]:
        """All answers are of one size; the first one tells which."""
        self.socket.sendall(frames.request)
        answer = receive_frame(self.socket)
        self._refuse_error(answer, 0)
        return self._offset(answer, 0) + 1, len(answer)

    def send(self, count: int) -> None:
        count = min(count, self.unsent)
        if count:
            self.unsent -= count
            now = time.perf_counter_ns()
            self.sent_at.extend([now] * count)
            self.socket.sendall(self.bursts[count])

    def receive(self) -> None:
        """Take whatever has arrived, and send one request for every answer."""
        chunk = self.socket.recv(_RECEIVE_BYTES)
        now = time.perf_counter_ns()
        if not chunk:
            raise ConnectionResetError("the broker closed the connection")
        received = self.received
        received += chunk
        answers = len(received) // self.answer_size
        if not answers:
            return
        for number in range(answers):
            self._refuse_error(received, number * self.answer_size)
            self.latencies.append(now - self.sent_at.popleft())
        self.unanswered -= answers
        if not self.unanswered:
            self._check_last_offset((answers - 1) * self.answer_size)
        del received[: answers * self.answer_size]
        self.send(answers)

    def _refuse_error(self, data: bytes | bytearray, start: int) -> None:
        error = start + self.frames.error_position
        if data[error : error + 2] != b"\0\0":
            raise SystemExit(f"a Produce request was refused: {data[error : error + 2].hex()}")

    def _check_last_offset(self, start: int) -> None:
        """Every request was appended once: the last one's offset says so."""
        expected = self.first_offset + len(self.latencies) - 1
        offset = self._offset(self.received, start)
        if offset != expected:
            raise SystemExit(f"the last record has offset {offset}, not {expected}")

    def _offset(self, data: bytes | bytearray, start: int) -> int:
        position = start + self.frames.base_offset_position
        return int.from_bytes(data[position : position + 8], "big")


def run_one(lane: Lane) -> None:
    """A single connection needs no poll: its recv waits."""
    lane.send(lane.depth)
    while lane.unanswered:
        lane.receive()


def run_all(lanes: list[Lane]) -> None:
    by_descriptor = {lane.socket.fileno(): lane for lane in lanes}
    ready = select.epoll()
    for descriptor in by_descriptor:
        ready.register(descriptor, select.EPOLLIN)
    for lane in lanes:
        lane.send(lane.depth)
    left = len(lanes)
    while left:
        for descriptor, _ in ready.poll():
            lane = by_descriptor[descriptor]
            lane.receive()
            if not lane.unanswered:
                ready.unregister(descriptor)
                left -= 1


def numbers(lanes: list[Lane], elapsed: float, cpu_seconds: float) -> dict[str, float]:
    latencies = sorted(latency for lane in lanes for latency in lane.latencies)
    return {
        "seconds": elapsed,
        "requests": len(latencies),
        "requests_per_second": len(latencies) / elapsed,
        "p50_us": quantile(latencies, 0.5),
        "p99_us": quantile(latencies, 0.99),
        "p999_us": quantile(latencies, 0.999),
        "client_cpu_seconds": cpu_seconds,
    }


def quantile(sorted_nanoseconds: list[int], share: float) -> float:
    position = min(int(len(sorted_nanoseconds) * share), len(sorted_nanoseconds) - 1)
    return sorted_nanoseconds[position] / _NANOSECONDS_PER_MICROSECOND


if __name__ == "__main__":
    main()
