"""Connections that keep several equal requests in flight and time every response."""

import gc
import select
import socket
import time
from array import array
from collections import deque
from collections.abc import Sequence

from benchmarks.wire import receive_frame

_RECEIVE_BYTES = 1 << 16
_NANOSECONDS_PER_MICROSECOND = 1000


class Lane:
    """A connection that repeatedly sends the same request."""

    def __init__(
        self, port: int, request: bytes, error_position: int, depth: int, requests: int
    ) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.error_position = error_position
        self.bursts = [request * count for count in range(depth + 1)]
        self.depth = depth
        self.unsent = requests
        self.unanswered = requests
        self.sent_at: deque[int] = deque()
        self.latencies = array("q")
        self.received = bytearray()
        self.answer_size = self._try_out(request)

    def _try_out(self, request: bytes) -> int:
        """All responses have the size of the first one."""
        self.socket.sendall(request)
        answer = receive_frame(self.socket)
        self._refuse_error(answer, 0)
        self.check_first(answer)
        return len(answer)

    def check_first(self, answer: bytes) -> None:
        """Checks the response of the warm-up request."""

    def check_last(self, answer: bytes) -> None:
        """Checks the last response."""

    def send(self, count: int) -> None:
        count = min(count, self.unsent)
        if count:
            self.unsent -= count
            now = time.perf_counter_ns()
            self.sent_at.extend([now] * count)
            self.socket.sendall(self.bursts[count])

    def receive(self) -> None:
        """Reads available responses and sends one request for each."""
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
            self.check_last(bytes(received[-self.answer_size :]))
        del received[: answers * self.answer_size]
        self.send(answers)

    def _refuse_error(self, data: bytes | bytearray, start: int) -> None:
        error = start + self.error_position
        if data[error : error + 2] != b"\0\0":
            raise SystemExit(f"request failed: {data[error : error + 2].hex()}")


def run(lanes: Sequence[Lane]) -> dict[str, float]:
    """Sends all requests of all lanes; returns the measurements."""
    gc.collect()
    gc.disable()
    began, cpu_began = time.perf_counter(), time.process_time()
    if len(lanes) == 1:
        _run_one(lanes[0])
    else:
        _run_all(lanes)
    elapsed, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu_began
    return _numbers(lanes, elapsed, cpu_seconds)


def _run_one(lane: Lane) -> None:
    """A single connection needs no poll, because recv blocks."""
    lane.send(lane.depth)
    while lane.unanswered:
        lane.receive()


def _run_all(lanes: Sequence[Lane]) -> None:
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


def _numbers(lanes: Sequence[Lane], elapsed: float, cpu_seconds: float) -> dict[str, float]:
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
